"""What an agent has lived through, and how it is cut up for learning.

Start with `rollout.py` (the record that everything else reads). `collect.py` fills it from
environments, `rewards.py` scales rewards and `advantages.py` has GAE. `episode_borders.py` knows
where episodes begin and end, `minibatches.py` deals frames to minibatches, `within_episodes.py`
makes views, windows and stretches that stay inside an episode, and `skills.py` has the skills that
an agent follows.
May import: nn, envs.
"""
