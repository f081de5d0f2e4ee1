"""What an agent has lived through, and how it is cut up for learning.

Start with `rollout.py` (the record that everything else reads). `collect.py` fills it from
environments, `trajectories.py` reads anybody's buffers, `advantages.py` has GAE and the scale of
rewards, `minibatches.py` decides which frames form one and never lets anything cross an episode's
end, `skills.py` who follows which.
May import: nn, envs.
"""
