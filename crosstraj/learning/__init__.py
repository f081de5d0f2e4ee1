"""One run while it learns: the parts, the updates, the evaluation, and what a person sees of it.

Start with `learner.py` (what is learnt from one rollout, in which order) and `gradient_routing.py`
(agent, objective, optimisers, and where gradients go). `networks.py` makes agent and objective,
`state.py` is what a checkpoint holds, `load.py` reads a trained run back (`load(run, step)`),
`evaluation.py` judges it, `watch.py` puts its health into words.
May import: runs, config and everything below; the loop itself is `crosstraj/loop.py`.
"""
