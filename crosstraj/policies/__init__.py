"""How an agent acts, and the losses that teach it to act better.

Start with `agent.py` (encoder and heads), then `ppo.py` and `daac.py` (one loss each).
`experience.py` holds a rollout's steps as these losses read them. May import: nn, envs, data.
"""
