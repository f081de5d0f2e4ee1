"""Run directories as reports and tables read them: what was trained, how far, how it was judged."""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from crosstraj.config.groups import LevelSplit
from crosstraj.config.stored import to_dict
from crosstraj.errors import BadInput
from crosstraj.learning.evaluation import SPLITS
from crosstraj.learning.load import read_config, read_values
from crosstraj.runs.log import read_rows
from crosstraj.runs.read import is_kept, metrics


class Evaluation(NamedTuple):
    frames: int
    seen: float  # mean raw return on training levels
    held_out: float  # and on those it is judged by: see `judged_by`


Rows = list[dict[str, Any]]  # of metrics.jsonl, oldest first
UNREADABLE = (OSError, LookupError, TypeError, ValueError, RecursionError)  # of a damaged log


class Reached(NamedTuple):
    """What a run has recorded up to its budget: what it learnt later is not counted."""

    rows: Rows
    frames: int  # of the last row; 0: not begun
    evaluations: list[Evaluation]
    finished: bool  # the policy was judged at the end of the budget

    @property
    def updates(self) -> Rows:
        return [row for row in self.rows if row["row"] == "update"]


def reached(run: Path, budget: int, levels: LevelSplit, rollout: float = math.inf) -> Reached:
    """A run ends with the first evaluation after its budget, less than `rollout` frames after it.

    One that went on may not have stopped here to be judged: then it is not finished here.
    """
    rows = metrics(run)
    ends = [
        row["frames"]
        for row in rows
        if row["row"] == "evaluation" and budget <= row["frames"] < budget + rollout
    ]
    if ends:
        rows = [row for row in rows if row["frames"] <= ends[0]]
    evaluations = [
        Evaluation(int(row["frames"]), float(row["seen_return"]), float(row[f"{levels}_return"]))
        for row in rows
        if row["row"] == "evaluation"
    ]
    frames = max((int(row["frames"]) for row in rows), default=0)
    return Reached(rows, frames, evaluations, bool(ends))


class Played(NamedTuple):
    """One episode of the last evaluation."""

    split: str
    level: int
    score: float


FirstFrames = dict[tuple[str, int], set[str]]  # (split, level) -> hashes of its first frame


class RunData(NamedTuple):
    path: Path
    config: dict[str, Any]
    reached: Reached
    training: list[tuple[int, float]]  # frames, running mean of training returns
    episodes: list[Played]
    first_frames: FirstFrames

    @property
    def game(self) -> str:
        """What is played; each Ising goal is a game of its own."""
        goal = self.config.get("ising", {}).get("instance")
        return self.config["env"] if goal is None else f"{self.config['env']}, goal {goal}"

    @property
    def seed(self) -> int:
        return int(self.config["seed"])

    @property
    def budget(self) -> int:
        return int(self.config["frames"])

    @property
    def final(self) -> Evaluation | None:
        """The evaluation at the end of the budget; none if the run is partial."""
        return self.reached.evaluations[-1] if self.reached.finished else None

    @property
    def state(self) -> str:
        if self.final is not None:
            return "finished"
        frames = self.reached.frames
        judged = "" if frames < self.budget else ", not judged at the end"
        return f"partial: {frames:,} of {self.budget:,} frames{judged}"


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """The runs at or below these paths, kept ones too, each once; a path without any is refused."""
    found: dict[Path, Path] = {}
    for path in paths:
        below = [path] if path.is_file() and is_kept(path) else []
        for directory, names, files in os.walk(path):
            if "config.json" in files:
                below.append(Path(directory))
                names.clear()  # nothing below a run is another run
            else:
                inside = (Path(directory) / name for name in sorted(files))
                below += [file for file in inside if is_kept(file)]
            names.sort()
        if not below:
            raise BadInput(
                f"{path} holds no run; give run directories, or a directory that holds some"
            )
        found |= {place.resolve(): place for place in below}
    return list(found.values())


def read_run(path: Path) -> RunData:
    """One run, or a sentence on what is wrong with its directory."""
    try:
        config = _config(path)
        found = reached(path, config["frames"], judged_by(config))
        training = [
            (int(row["frames"]), float(row["train_return"]))
            for row in found.updates
            if "train_return" in row
        ]
        last = found.evaluations[-1].frames if found.evaluations else 0
        numbered = config["env"] != "ising"  # whose number is that of a goal, not of a level
        played = read_rows(path / "episodes.jsonl")
        episodes, first_frames = _episodes(played, last, numbered=numbered)
    except UNREADABLE as error:
        said = f"{type(error).__name__} {error}" if not isinstance(error, BadInput) else str(error)
        raise BadInput(f"{path} cannot be read: {said}") from error
    return RunData(path, config, found, training, episodes, first_frames)


def judged_by(config: Mapping[str, Any]) -> LevelSplit:
    """The levels whose return is a run's result: validation where it played no unseen ones."""
    held_out = config.get("evaluation", {}).get("held_out")
    return "validation" if held_out == "validation" else "unseen"


KINDS: dict[str, type] = {
    **dict.fromkeys(("method", "preset", "env"), str),
    **dict.fromkeys(("seed", "frames"), int),
    **dict.fromkeys(("procgen", "evaluation", "objective"), dict),
    **dict.fromkeys(("procgen.first_level", "procgen.train_levels"), int),
}


def _config(path: Path) -> dict[str, Any]:
    """All values, with those that are newer than the run filled in; else as they stand."""
    try:
        config = to_dict(read_config(path))
    except (BadInput, TypeError):  # of another version, or with a method that is not ours
        config = read_values(path)
    for key, kind in KINDS.items():
        outer, _, inner = key.rpartition(".")
        value = (config.get(outer, {}) if outer else config).get(inner, kind())
        if type(value) is not kind or (key not in config and not outer):
            raise BadInput(f"config.json: {key} is {value!r}, and must be {kind.__name__}")
    for part in ("ising", "gymnasium"):  # only some runs have them
        if type(config.get(part, {})) is not dict:
            raise BadInput(f"config.json: {part} is {config[part]!r}, and must be dict")
    for name, value in config.get("gymnasium", {}).items():
        if type(value) is not int:
            raise BadInput(f"config.json: gymnasium.{name} is {value!r}, and must be int")
    return config


def _episodes(
    rows: Sequence[dict[str, Any]], last: int, *, numbered: bool
) -> tuple[list[Played], FirstFrames]:
    """Returns of the last evaluation; first frames of all."""
    episodes: list[Played] = []
    first_frames: FirstFrames = {}
    for row in rows:
        split, level = row["split"], int(row["level"]) if numbered else -1
        if split not in SPLITS:
            raise BadInput(
                f"episodes.jsonl: split is {split!r}, and must be one of {', '.join(SPLITS)}"
            )
        if level >= 0:
            first_frames.setdefault((split, level), set()).add(str(row["first_frame"]))
        if row["frames"] == last:
            episodes.append(Played(split, level, float(row["score"])))
    return episodes, first_frames
