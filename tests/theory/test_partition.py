"""Refinement finds the coarsest partition that is a bisimulation."""

from itertools import product

import numpy as np

from crosstraj.theory.decision_processes import Process, random_process, with_copies
from crosstraj.theory.partition import bisimilar, refine
from tests.theory.slow import rng


def test_refinement_finds_the_coarsest_of_all_partitions_that_are_bisimulations() -> None:
    g, sizes = rng(5), set()
    for _ in range(30):
        base = random_process(3, 2, g, successors=1, rewards=(0.0, 1.0))
        process, _ = with_copies(base, 2, g)
        process = Process(process.transition[:5, :, :5], process.reward[:5])
        lost = 1 - process.transition.sum(2)  # what led to the state cut off stays where it is
        process.transition[np.arange(5), :, np.arange(5)] += lost
        fitting = [blocks for blocks in partitions(5) if is_bisimulation(process, np.array(blocks))]
        coarsest = min(fitting, key=lambda blocks: max(blocks))
        assert bisimilar(process).tolist() == list(coarsest)
        sizes.add(max(coarsest) + 1)
    assert len(sizes) >= 3  # from few classes to many


def partitions(states: int) -> list[tuple[int, ...]]:
    """All partitions, each with its blocks numbered in order of appearance."""
    found: list[tuple[int, ...]] = [()]
    for _ in range(states):
        found = [(*blocks, b) for blocks in found for b in range(max(blocks, default=-1) + 2)]
    return found


def is_bisimulation(process: Process, blocks: np.ndarray) -> bool:
    """The definition, word for word, with classes where the paper prints states."""
    for s, t in product(range(len(blocks)), repeat=2):
        if blocks[s] != blocks[t]:
            continue
        for a in range(process.reward.shape[1]):
            if process.reward[s, a] != process.reward[t, a]:
                return False
            for block in set(blocks.tolist()):
                inside = blocks == block
                mass_s = process.transition[s, a, inside].sum()
                if abs(mass_s - process.transition[t, a, inside].sum()) > 1e-10:
                    return False
    return True


def test_copies_are_bisimilar_and_no_others() -> None:
    process, original = with_copies(random_process(4, 2, rng(6)), 3, rng(7))
    assert bisimilar(process).tolist() == original.tolist()
    assert np.abs(process.transition[0] - process.transition[1]).max() > 0.01


def test_labels_split_what_dynamics_alone_would_not() -> None:
    transition = random_process(4, 2, rng(8)).transition
    assert refine(transition, np.zeros(4)).tolist() == [0, 0, 0, 0]
    assert len(set(refine(transition, np.array([0, 0, 0, 1])).tolist())) == 4
