"""The composite Ising matching task of the paper's appendix.

Start with `task.py` (the vector environment); `matching.py` has the rules and `lattice.py` the
physics.
"""
