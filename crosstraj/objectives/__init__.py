"""The objectives: what a method learns beside its policy. One file each, named like the method.

Start with `base.py` (the contract), then any method's file: it ends in its METHOD, the record of
`method.py` that a person's own file ends in, too. The registry is `crosstraj/config/methods.py`,
one line for each. `phases.py` are parts of a budget, `prototypes.py` what clusterings share,
`paired_play.py` what PSE plays beside the rollouts. May import: nn, envs, data, health.
"""

from crosstraj.objectives.base import NoObjective, Objective, ObjectiveConfig
from crosstraj.objectives.method import Method

__all__ = ["Method", "NoObjective", "Objective", "ObjectiveConfig"]
