"""What was measured of encoders, kept in a file: to be compared when their weights are gone.

    probes-GAME.safetensors   both courses of each encoder, by its values and frames of training

All encoders of a file were judged on one recording of one expert's play. The file's metadata says
on which, because courses of two recordings are not of the same levels and must not be subtracted.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError

from crosstraj.analysis.probes.judge import Exam, Pair
from crosstraj.disk import read_plain_file, write_whole
from crosstraj.errors import BadInput
from crosstraj.runs.codec import pack, read_facts, unpack


class Facts(NamedTuple):
    """Of the exam that all encoders of a file sat."""

    question: str  # digest of the expert's weights and of what was chosen
    play: str  # digest of the recordings
    levels: int
    frames: int
    notes: list[str]


class Kept(NamedTuple):
    facts: Facts | None  # none: nothing has been measured
    pairs: dict[str, Pair]  # by the name of the encoder


def recall(file: Path, question: str) -> Kept:
    """What is in a file, which must have asked the same."""
    if not file.exists():
        return Kept(None, {})
    try:
        data = read_plain_file(file)
        facts = Facts(**json.loads(read_facts(data)["exam"]))
        tensors = {name: tensor.numpy() for name, tensor in unpack(data).items()}
        names = {name.rpartition(".")[0] for name in tensors}
        pairs = {name: Pair(tensors[f"{name}.share"], tensors[f"{name}.auc"]) for name in names}
    except (OSError, ValueError, LookupError, TypeError, SafetensorError) as error:
        raise BadInput(f"{file} cannot be read: {error}; restore it, or move it away") from error
    if facts.question != question:
        raise BadInput(
            f"{file} was measured with another expert or other choices; restore these, or move the "
            "file away to measure anew, which needs the weights of all runs"
        )
    return Kept(facts, pairs)


def known_exam(
    file: Path, facts: Facts | None, exam: Exam, question: str, notes: list[str]
) -> Facts:
    """What a file says of this exam; refused if it was measured on other play.

    Play differs where processors or engines round differently.
    """
    play = digest_of_play(exam)
    if facts is not None and facts.play != play:
        raise BadInput(
            f"the expert plays otherwise on this machine than when {file} was made; go on on a "
            "machine of that kind, or move the file away to measure anew, which needs the weights "
            "of all runs"
        )
    return facts or Facts(question, play, exam.levels, len(exam.unseen.level), notes)


def write(file: Path, facts: Facts, pairs: dict[str, Pair]) -> None:
    tensors = {
        f"{name}.{kind}": torch.from_numpy(course)
        for name, pair in sorted(pairs.items())
        for kind, course in pair._asdict().items()
    }
    write_whole(file, pack(tensors, {"exam": json.dumps(facts._asdict())}))


def digest_of_play(exam: Exam) -> str:
    whole = hashlib.sha256()
    for part in (exam.seen, exam.unseen):
        for column in part:
            whole.update(f"{column.dtype} {column.shape}".encode())
            whole.update(column.tobytes())
    return whole.hexdigest()


def digest_of_question(weights: dict[str, torch.Tensor], chosen: dict[str, Any]) -> str:
    said = json.dumps(chosen, sort_keys=True).encode()
    return hashlib.sha256(pack(dict(sorted(weights.items()))) + said).hexdigest()
