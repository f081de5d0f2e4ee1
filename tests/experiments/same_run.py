"""An experiment file whose one run is the one that tests share, and its table read back."""

from pathlib import Path

# The values of the run that tests share, as a file would have them.
SAME = """
name = "e"
title = "A title"
reproduces = "A source."
frames = 768
games = ["starpilot"]
seeds = [0]
methods = ["ctrl"]
table = "{table}"

[base]
envs = 8
rollout_steps = 32
encoder = "laptop"
policy.epochs = 1
policy.minibatches = 2
representation.minibatches = 2
evaluation.episodes = 2
evaluation.envs = 2
objective.clusters = 8
saving.snapshots = 3
"""


def rows_of(out: Path) -> list[list[str]]:
    lines = (out / "table.md").read_text().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
