"""What was measured of encoders, kept in a file: to be compared when their weights are gone.

    probes-GAME.safetensors   both courses of each encoder; as metadata, the exam and their values

All encoders of a file sat one exam, for courses of two exams are not of the same levels and must
not be subtracted: the same play of one expert, and the same resamples of its levels.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from torch import Tensor

from crosstraj.analysis.probes.judge import Exam, Pair
from crosstraj.config.stored import FORMAT, completed, telling, to_dict
from crosstraj.config.values import Config
from crosstraj.disk import read_plain_file, write_whole
from crosstraj.errors import BadInput
from crosstraj.runs.codec import pack, read_facts, unpack

METHOD = 1  # raised when probes are fitted, or measured, otherwise than before


class Facts(NamedTuple):
    """Of an exam."""

    question: str  # digest of the expert's weights and of what was chosen
    play: str  # digest of what the expert met, and of how levels are resampled
    levels: int
    frames: int
    notes: list[str]


class Measurement(NamedTuple):
    format: int  # of the values
    values: dict[str, Any]  # of the encoder's run
    pair: Pair

    def is_of(self, config: Config) -> bool:
        """Was it a run of these values? Those of older formats are completed first."""
        return telling(completed(self.values, self.format)) == telling(to_dict(config))


Measurements = dict[str, Measurement]  # by the name of the encoder


def measurement(config: Config, pair: Pair) -> Measurement:
    return Measurement(FORMAT, to_dict(config), pair)


def recall(file: Path, question: str) -> tuple[Facts | None, Measurements]:
    """What is in a file, which must have asked the same; nothing where there is none."""
    if not file.exists():
        return None, {}
    try:
        data = read_plain_file(file)
        said, tensors = json.loads(read_facts(data)["said"]), unpack(data)
        facts = Facts(**said["exam"])
        found = {
            name: Measurement(
                version, values, Pair(*(tensors[f"{name}.{kind}"].numpy() for kind in Pair._fields))
            )
            for name, (version, values) in said["encoders"].items()
        }
    except (OSError, ValueError, LookupError, TypeError, SafetensorError) as error:
        raise BadInput(f"{file} cannot be read: {error}; restore it, or move it away") from error
    if facts.question != question:
        raise BadInput(
            f"{file} was measured with another expert or other choices; restore these, or move the "
            "file away to measure anew, which needs the weights of all runs"
        )
    return facts, found


def write(file: Path, facts: Facts, found: Measurements) -> None:
    tensors = {
        f"{name}.{kind}": torch.from_numpy(course)
        for name, one in found.items()
        for kind, course in one.pair._asdict().items()
    }
    encoders = {name: (one.format, one.values) for name, one in found.items()}
    # As one entry: the order of several would be another each time.
    said = {"said": json.dumps({"exam": facts._asdict(), "encoders": encoders})}
    write_whole(file, pack(tensors, said))


def check_play(file: Path, facts: Facts, exam: Exam) -> None:
    """Refuse what was measured on another play: processors and engines round differently."""
    if facts.play != digest_of_play(exam):
        raise BadInput(
            f"the expert plays otherwise on this machine than when {file} was made; measure it on "
            "a machine of that kind, or move the file away to measure all anew"
        )


def digest_of_play(exam: Exam) -> str:
    """Of the frames, levels and rewards, and of who is held out and resampled."""
    whole = hashlib.sha256()
    kept = [(part.frames, part.level, part.soon) for part in (exam.seen, exam.unseen)]
    for column in (*kept[0], *kept[1], exam.held, exam.weights):
        whole.update(f"{column.dtype} {column.shape}".encode())
        whole.update(column.tobytes())
    return whole.hexdigest()


def digest_of_question(weights: Mapping[str, Tensor], chosen: Mapping[str, Any]) -> str:
    """Of the expert, what was chosen of the exam, and the method."""
    said = json.dumps([METHOD, dict(chosen)], sort_keys=True).encode()
    return hashlib.sha256(pack(dict(sorted(weights.items()))) + said).hexdigest()
