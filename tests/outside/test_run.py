"""Runs from Python: the same values, the same bytes and the same agent as by the command line."""

from pathlib import Path

import pytest
import torch

import crosstraj as ct
from crosstraj.cli.run_values import chosen_preset
from crosstraj.learning.load import untrained
from tests.conftest import Trained


def tiny(place: Path) -> ct.Config:
    """The run of the fixture `trained`, in words of Python."""
    values = {
        "policy.minibatches": 2,
        "representation.minibatches": 2,
        "evaluation.episodes": 2,
        "evaluation.envs": 2,
        "machine.threads": 1,
        "saving.runs": str(place),
    }
    sizes = {"envs": 8, "rollout_steps": 32, "encoder": "laptop", "policy.epochs": 1}
    return ct.preset("ppo", env="starpilot", seed=5, frames=512, **sizes, **values)


def test_a_run_from_python_is_that_of_the_command_line_to_the_byte(
    trained: Trained, tmp_path: Path
) -> None:
    run = ct.train(tiny(tmp_path))
    assert run == tmp_path / trained.directory.name  # so the values are the same, by their digest
    for name in ("metrics.jsonl", "episodes.jsonl"):
        assert (run / name).read_bytes() == (trained.directory / name).read_bytes()
    written = (run / "metrics.jsonl").stat().st_mtime_ns
    assert ct.train(tiny(tmp_path)) == run  # done: returns at once
    assert (run / "metrics.jsonl").stat().st_mtime_ns == written


def test_a_loaded_agent_acts(trained: Trained) -> None:
    agent = ct.load(str(trained.directory)).agent
    frames = torch.randint(256, (6, 64, 64, 3), dtype=torch.uint8)
    probabilities = agent.log_probs(agent.encoder(frames), torch.zeros(6, 0))
    assert agent.act(frames).action.tolist() == probabilities.argmax(1).tolist()
    drawn = {tuple(agent.act(frames, rng=rng(seed)).action.tolist()) for seed in range(9)}
    assert len(drawn) > 1
    assert torch.equal(agent.act(frames, rng=rng(1)).action, agent.act(frames, rng=rng(1)).action)


def rng(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_values_are_those_of_the_method_its_preset_and_its_policy() -> None:
    assert ct.preset() == ct.preset("ctrl", "default") == chosen_preset([])
    words = "--method daac --preset default --env maze --policy.per-game"
    assert ct.preset("daac", env="maze", **{"policy.per_game": True}) == chosen_preset(
        words.split()
    )
    few = ct.preset("ppo", **{"evaluation.episodes": 6}).evaluation
    assert (few.episodes, few.envs) == (6, 6)  # as the command line has it
    paper = ct.preset("ctrl", "paper")
    assert paper == chosen_preset(["--method", "ctrl", "--preset", "paper"]) != ct.preset("ctrl")


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"method": "ctlr"}, "unknown method 'ctlr': did you mean 'ctrl'"),
        ({"framse": 1}, "unknown value 'framse': did you mean 'frames'"),
        ({"frames": "many"}, "frames='many': must be a whole number"),
        ({"frames": 0}, "frames=0: must be at least 1"),
    ],
)
def test_wrong_values_are_refused_in_one_sentence(values: dict[str, object], sentence: str) -> None:
    with pytest.raises(ct.BadInput) as refusal:
        ct.preset(**values)
    assert sentence in str(refusal.value)


def test_skills_are_asked_for() -> None:
    agent = untrained(ct.preset("diayn", encoder="laptop")).agent
    with pytest.raises(ct.BadInput, match="this policy follows skills"):
        agent.act(torch.zeros(1, 64, 64, 3, dtype=torch.uint8))
