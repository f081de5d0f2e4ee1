"""What was measured of encoders, kept: of which exam, and of a run of which values."""

from pathlib import Path

import numpy as np
import pytest
import torch

from crosstraj.analysis.probes.archive import (
    Facts,
    Measurement,
    digest_of_play,
    digest_of_question,
    measurement,
    recall,
    write,
)
from crosstraj.analysis.probes.judge import Exam, Pair
from crosstraj.analysis.probes.record import Recording
from crosstraj.config.dotted import override
from crosstraj.config.presets import preset
from crosstraj.errors import BadInput

CONFIG = preset("ppo", "default")
FACTS = Facts("asked", "played", 5, 6, ["a note"])


def pair(value: float) -> Pair:
    return Pair(np.array([value, 1 / 3]), np.array([value, np.nan]))


def recording(**changed: np.ndarray) -> Recording:
    known = {
        "frames": np.zeros((2, 4, 4, 3), np.uint8),
        "log_probs": np.zeros((2, 3)),
        "level": np.array([7, 8]),
        "soon": np.array([True, False]),
    }
    return Recording(**(known | changed))


def exam(unseen: Recording | None = None, held: int = 0, drawn: float = 1.0) -> Exam:
    return Exam(recording(), unseen or recording(), np.arange(2) == held, np.array([[1.0, drawn]]))


def test_what_was_measured_comes_back_to_the_bit(tmp_path: Path) -> None:
    found = {
        "ours, .5/0/256": measurement(CONFIG, pair(0.1)),
        "ppo/1/256": measurement(CONFIG, pair(0.2)),
    }
    write(tmp_path / "f", FACTS, found)
    facts, known = recall(tmp_path / "f", "asked")
    assert facts == FACTS
    assert list(known) == list(found)
    for name, one in known.items():
        for ours, theirs in zip(one.pair, found[name].pair, strict=True):
            assert ours.tobytes() == theirs.tobytes()
        assert one.is_of(CONFIG)
        assert not one.is_of(override(CONFIG, {"policy.epochs": 2}))
        assert not one.is_of(override(CONFIG, {"seed": 9}))
    assert recall(tmp_path / "none", "asked") == (None, {})
    with pytest.raises(BadInput, match="another expert"):
        recall(tmp_path / "f", "another question")


def test_values_of_an_older_format_are_completed_before_they_are_compared() -> None:
    one = measurement(override(CONFIG, {"policy.head_rate": 1.0, "policy.stretch": 0}), pair(0.1))
    older = {**one.values, "policy": {**one.values["policy"]}}
    del older["policy"]["head_rate"], older["policy"]["stretch"]  # 1 and 0 where not said
    config = override(CONFIG, {"policy.head_rate": 1.0, "policy.stretch": 0})
    assert Measurement(1, older, one.pair).is_of(config)
    assert not Measurement(1, older, one.pair).is_of(override(config, {"policy.head_rate": 4.0}))


@pytest.mark.parametrize(
    "other",
    [
        exam(recording(frames=np.ones((2, 4, 4, 3), np.uint8))),
        exam(recording(level=np.array([7, 9]))),
        exam(recording(soon=np.array([True, True]))),
        exam(held=1),
        exam(drawn=2.0),
    ],
)
def test_another_play_or_draw_is_another_exam(other: Exam) -> None:
    assert digest_of_play(exam()) == digest_of_play(exam())
    assert digest_of_play(other) != digest_of_play(exam())
    rounded = exam(recording(log_probs=np.full((2, 3), 1e-9)))
    assert digest_of_play(rounded) == digest_of_play(exam())


def test_another_expert_or_choice_is_another_question() -> None:
    weights, chosen = {"w": torch.zeros(2)}, {"frames": 100}
    one = digest_of_question(weights, chosen)
    assert one == digest_of_question({"w": torch.zeros(2)}, {"frames": 100})
    assert one != digest_of_question({"w": torch.ones(2)}, chosen)
    assert one != digest_of_question(weights, {"frames": 101})
