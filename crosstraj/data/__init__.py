"""What an agent has lived through, and how it is cut up for learning.

Start with `rollout.py` (the record that everything else reads). `collect.py` fills it from
environments, `rewards.py` scales rewards and `advantages.py` has GAE. `fragments.py` knows where
episodes end, `minibatches.py` decides which frames form one, `skills.py` who follows which.
May import: nn, envs.
"""
