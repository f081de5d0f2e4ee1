"""The largest bisimulation that respects labels, by partition refinement."""

import numpy as np
from numpy.typing import NDArray

from crosstraj.theory.decision_processes import Array, Blocks, Process

TOLERANCE = 1e-10


def refine(transition: Array, labels: NDArray[np.generic]) -> Blocks:
    """The block of each state: equal labels, and for each action equal mass into each block.

    labels: [S] or [S, k], anything that must agree. Blocks are split until none can be; what is
    left is the coarsest partition of its kind.
    """
    signature = labels.reshape(len(labels), -1).astype(np.float64)
    blocks = _group(signature)
    while True:
        member = np.eye(blocks.max() + 1)[blocks]  # [S, blocks]
        mass = (transition @ member).reshape(len(blocks), -1)
        finer = _group(np.column_stack([blocks, mass]))
        if finer.max() == blocks.max():
            return blocks
        blocks = finer


def bisimilar(process: Process) -> Blocks:
    """The largest bisimulation of a process: rewards are the labels."""
    return refine(process.transition, process.reward)


def _group(signature: Array) -> Blocks:
    """Numbers rows so that equal rows, up to rounding, share one: in order of appearance."""
    seen: list[Array] = []
    blocks = np.empty(len(signature), np.int64)
    for state, row in enumerate(signature):
        for block, known in enumerate(seen):
            if np.abs(row - known).max(initial=0.0) <= TOLERANCE:
                blocks[state] = block
                break
        else:
            blocks[state] = len(seen)
            seen.append(row)
    return blocks
