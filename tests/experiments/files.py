"""Experiment files that tests write, and runs of one."""

import re
from pathlib import Path

from crosstraj.experiments.file import read
from crosstraj.experiments.jobs import Job, prepare

FILES = sorted(Path("experiments").glob("*/*.toml"))

SMALL = """
name = "small"
title = "A small one"
reproduces = "Nothing."
frames = 1_000
games = ["bigfish", "coinrun"]
seeds = [0, 3]
methods = ["ctrl:paper", "ppo"]

[base]
encoder = "laptop"

[variants."narrow"]
policy.epochs = 2

[variants."wide"]
policy.epochs = 3
procgen.train_levels = 50

[variants."frozen"]
method = "ppo"
encoder_grad = "none"
frames = 3_000
"""


def write(tmp_path: Path, text: str = SMALL) -> Path:
    path = tmp_path / "file.toml"
    path.write_text(text)
    return path


def without(key: str, text: str = SMALL) -> str:
    return re.sub(rf"^{key} = .*\n", "", text, flags=re.MULTILINE)


def jobs_of(tmp_path: Path, count: int) -> list[Job]:
    text = without("methods", SMALL).replace("[0, 3]", str(list(range(count))))
    text = text[: text.index("[variants")] + "\n[variants.v]\nmethod = 'ppo'"
    text = text.replace('["bigfish", "coinrun"]', '["bigfish"]')
    return prepare(read(write(tmp_path, text)).runs(), tmp_path / "runs", tmp_path / "kept")
