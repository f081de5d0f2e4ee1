"""`crosstraj check`: each fault that it names, in an objective that has it; and sound ones."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from crosstraj.analysis import check_method
from crosstraj.analysis.episode_ends import across_ends
from crosstraj.cli.main import main
from crosstraj.config.methods import METHODS, brought
from crosstraj.config.own import read_method
from crosstraj.learning.state import Training

SOUND = Path(__file__).parents[2] / "examples" / "own_objective.py"
LOSS = "        loss = F.cross_entropy(logits, batch.action)\n"


@pytest.fixture(autouse=True)
def nothing_brought() -> Iterator[None]:
    yield
    for name in brought():
        METHODS.pop(name)


def changed(place: Path, *changes: tuple[str, str]) -> Path:
    """The example with something changed in it."""
    text = SOUND.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    file = place / "mine.py"
    file.write_text(text)
    return file


def found(file: Path) -> list[str]:
    return check_method.faults(read_method(file).name, "starpilot")


def training(file: Path) -> Training:
    return Training(check_method.tiny(read_method(file).name, "starpilot"))


def test_the_example_is_sound_and_the_command_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--with", str(SOUND)]) == 0
    assert "two equal runs are equal" in capsys.readouterr().out


def test_dropout_draws_from_the_global_generator_and_the_command_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = changed(tmp_path, ("nn.ReLU(), ", "nn.ReLU(), nn.Dropout(0.5), "))
    assert main(["check", "--with", str(file)]) == 1
    said = capsys.readouterr().err
    assert "1 fault(s)" in said
    assert "global randomness: torch's global generator was drawn from" in said


def test_what_the_clock_decides_is_found(tmp_path: Path) -> None:
    clock = LOSS.replace("\n", " * (1 + time.perf_counter_ns() % 1000)\n")
    (sentence,) = found(
        changed(tmp_path, (LOSS, clock), ("import torch\n", "import time, torch\n"))
    )
    assert sentence.startswith("two runs of one seed differ: ")


@pytest.mark.parametrize(
    ("start", "count", "named"),
    [
        ("self.count = 0\n        self.guess", "self.count", "the objective's count"),
        ("self.guess", "COUNTS[0]", "a global variable"),
    ],
)
def test_state_outside_state_dict_is_found_by_a_stop(
    tmp_path: Path, start: str, count: str, named: str
) -> None:
    counting = f"        {count} += 1\n{LOSS[:-1]} * {count}\n"
    changes = (("self.guess", start), (LOSS, counting), ("\n\n@data", "\nCOUNTS = [0]\n\n\n@data"))
    (sentence,) = found(changed(tmp_path, *changes))
    assert sentence.startswith("state outside state_dict: ")
    assert f"{named}" in sentence


def test_state_in_a_buffer_is_no_fault(tmp_path: Path) -> None:
    start = 'self.register_buffer("count", torch.zeros(()))\n        self.guess'
    counting = f"        self.count += 1\n{LOSS[:-1]} * self.count\n"
    assert found(changed(tmp_path, ("self.guess", start), (LOSS, counting))) == []


def test_an_encoder_without_a_gradient_and_dead_parameters_are_named(tmp_path: Path) -> None:
    changes = (
        ("encode(batch.frames).chunk(2)", "encode(batch.frames).detach().chunk(2)"),
        ("self.guess", "self.idle = nn.Linear(3, 3)\n        self.guess"),
    )
    run = training(changed(tmp_path, *changes))
    rollout = run.collector.collect(run.learner.agent)
    encoder, dead = check_method.gradient_faults(run, rollout)
    assert encoder.startswith("the encoder gets no gradient of the loss")
    assert dead.startswith("dead parameters: no gradient reaches idle.weight, idle.bias;")


def test_a_method_without_batches_and_one_that_fails_are_told(tmp_path: Path) -> None:
    run = training(changed(tmp_path, ("if len(index):", "if len(index) > 1000:")))
    (sentence,) = check_method.gradient_faults(run, run.collector.collect(run.learner.agent))
    assert sentence.startswith("no batch: ")
    (sentence,) = found(changed(tmp_path, (LOSS, LOSS.replace("logits", "logits[0]"))))
    assert "it fails in line " in sentence
    assert "cross_entropy" in sentence


PAIRS = ("(~rollout.done[:-1]).flatten()", "torch.ones_like(rollout.done[:-1]).flatten()")


def test_pairs_across_an_episodes_end_are_found(tmp_path: Path) -> None:
    run = training(changed(tmp_path, PAIRS))
    sentence = across_ends(run.learner, run.collector.collect(run.learner.agent))
    assert sentence.startswith("episode ends: frames after `done` change what is learnt")


@pytest.mark.parametrize("method", ["ctrl", "curl", "spr", "driml", "situations", "dbc", "proto"])
def test_no_method_of_ours_learns_across_an_episodes_end(method: str) -> None:
    run = Training(check_method.tiny(method, "starpilot"))
    assert not across_ends(run.learner, run.collector.collect(run.learner.agent))


def test_global_generators_are_put_back() -> None:
    before = check_method.states()
    with check_method.global_generators(seed=3):
        torch.rand(1)
        assert check_method.states() != before
    assert check_method.states() == before
