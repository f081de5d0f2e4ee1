"""An exported agent acts as its run does, to the bit, and is an agent to every command."""

import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from crosstraj.cli.main import main
from crosstraj.errors import BadInput
from crosstraj.learning.load import load
from crosstraj.runs import shipped
from crosstraj.runs.made_by import this_code
from crosstraj.runs.read import stored
from tests.conftest import Trained
from tests.helpers import rng


@pytest.fixture(scope="module")
def exported(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shipped as `agents/mine`."""
    place = tmp_path_factory.mktemp("results") / "agents" / "mine"
    place.parent.mkdir()
    assert main(["export", str(trained.directory), "--out", str(place), "--no-clip"]) == 0
    return place


def test_actions_are_equal_to_the_bit(trained: Trained, exported: Path):
    frames = torch.randint(256, (64, 64, 64, 3), dtype=torch.uint8, generator=rng(3))
    run, agent = load(trained.directory), load(exported)
    ours, theirs = (one.agent.act(frames, None, rng(1)) for one in (run, agent))
    assert all(a.equal(b) for a, b in zip(ours, theirs, strict=True))
    assert agent.frames == run.frames == 512
    assert agent.configuration.seed == run.configuration.seed
    assert load(exported, 512).frames == 512
    with pytest.raises(BadInput, match="no weights at 100 frames; it has 512 alone"):
        load(exported, 100)


def test_nothing_of_the_machine_that_made_it_is_told(trained: Trained, exported: Path):
    place = str(trained.directory.parent)
    for path in exported.iterdir():
        assert place.encode() not in path.read_bytes(), path.name
    assert stored(exported)["config"]["saving"]["runs"] == "runs"


def test_what_is_known_of_the_machine_goes_on_with_an_agent(exported: Path, tmp_path: Path):
    again = tmp_path / "again"
    words = ("--no-clip", "--licence", "cc-by-4.0")
    assert main(["export", str(exported), "--out", str(again), *words]) == 0
    assert 'license: "cc-by-4.0"' in (again / "README.md").read_text()
    facts = stored(exported)["agent"]["facts"]
    assert facts["torch"] == torch.__version__
    assert facts["code"] == this_code()
    assert stored(again)["agent"]["facts"] == facts
    told = [
        (place / "README.md").read_text().split("trained on: ")[1] for place in (exported, again)
    ]
    assert told[0].splitlines()[0] == told[1].splitlines()[0] != "not recorded"


def test_a_changed_weight_is_seen(exported: Path, tmp_path: Path):
    copy = tmp_path / "agent"
    shutil.copytree(exported, copy)
    model = bytearray((copy / "model.safetensors").read_bytes())
    model[-1] ^= 1
    (copy / "model.safetensors").write_bytes(model)
    with pytest.raises(BadInput, match=r"model.safetensors is broken: its SHA-256"):
        load(copy)


def test_commands_know_it_by_its_name_and_write_elsewhere(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    monkeypatch.setattr(shipped, "RESULTS", exported.parent.parent)
    monkeypatch.chdir(tmp_path)
    before = sorted(exported.iterdir())
    assert main(["evaluate", "agents/mine", "--episodes", "2", "--split", "unseen"]) == 0
    assert "after 512 frames" in capsys.readouterr().out
    few = ["--steps", "3", "--seen", "1", "--unseen", "0"]
    assert main(["watch", "agents/mine", *few]) == 0
    assert capsys.readouterr().out.strip() == "mine-watch.webp"
    assert main(["report", "agents/mine"]) == 0
    assert "mine-report" in capsys.readouterr().out
    assert sorted(exported.iterdir()) == before
    assert main(["watch", "agents/none"]) == 2
    assert "there are: agents/mine" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (("explore", "--views", "20"), "mine-explore.html"),
        (("analyse", "--views", "20"), "mine-analysis/summary.md"),
        (("probe", "--expert", "agents/mine", "--frames", "256"), "mine-probe/probe.md"),
    ],
)
def test_what_looks_into_a_run_takes_an_agents_name(
    words: tuple[str, ...], place: str, exported: Path, tmp_path: Path, monkeypatch
):
    monkeypatch.setattr(shipped, "RESULTS", exported.parent.parent)
    monkeypatch.setattr("crosstraj.analysis.plots.draw", lambda result: {})  # it takes long
    monkeypatch.chdir(tmp_path)
    before = sorted(exported.iterdir())
    assert main([words[0], "agents/mine", *words[1:]]) == 0
    assert (tmp_path / place).stat().st_size > 100
    assert sorted(exported.iterdir()) == before


def test_training_starts_from_its_weights_and_is_another_run(
    trained: Trained, exported: Path, tmp_path: Path
):
    command = [*trained.command, "--frames", "256", "--saving.runs", str(tmp_path)]
    assert main(command) == 0
    assert main([*command, "--from", str(exported)]) == 0
    plain, started = sorted(tmp_path.iterdir(), key=lambda run: "start" in stored(run)["config"])
    first = [(run / "metrics.jsonl").read_text().split("\n")[0] for run in (plain, started)]
    assert json.loads(first[0]) != json.loads(first[1])
    assert main([*command, "--from", str(exported)]) == 0  # the same command again: it is done
    assert len([*tmp_path.iterdir()]) == 2
    assert (
        main([*command, "--encoder", "laptop", "--pooling", "mean", "--from", str(exported)]) == 2
    )


def test_it_is_uploaded_only_if_asked_to(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    calls: list[Any] = []

    class Hub:
        def create_repo(self, name: str, exist_ok: bool) -> str:
            calls.append(name)
            return f"https://hub/{name}"

        def upload_folder(
            self, *, repo_id: str, folder_path: str, allow_patterns: list[str]
        ) -> None:
            named = {name for name in allow_patterns if (Path(folder_path) / name).exists()}
            calls.append((repo_id, folder_path, named))

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(HfApi=Hub))
    command = ["export", str(trained.directory), "--out", str(tmp_path / "a"), "--no-clip"]
    assert main(command) == 0
    assert calls == []
    (tmp_path / "a" / "diary.txt").touch()  # is nobody's business
    assert main([*command, "--push", "me/mine"]) == 0
    written = {"model.safetensors", "config.json", "metrics.jsonl", "README.md"}
    assert calls == ["me/mine", ("me/mine", str(tmp_path / "a"), written)]
    assert "https://hub/me/mine" in capsys.readouterr().out
    monkeypatch.setattr(Hub, "create_repo", lambda *_, **__: 1 / 0)
    assert main([*command, "--push", "me/mine"]) == 2
    assert "hub refused it (division by zero)" in capsys.readouterr().err


def test_what_is_in_the_way_is_left_alone(trained: Trained, tmp_path: Path, capsys):
    (tmp_path / "thesis.tex").touch()
    assert main(["export", str(trained.directory), "--out", str(tmp_path), "--no-clip"]) == 2
    assert "holds something else" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    theirs = tmp_path / "theirs"  # another library's model has files of the same names
    theirs.mkdir()
    (theirs / "model.safetensors").write_bytes(b"weights")
    (theirs / "config.json").write_text("{}")
    assert main(["export", str(trained.directory), "--out", str(theirs), "--no-clip"]) == 2
    assert (theirs / "model.safetensors").read_bytes() == b"weights"


def test_nothing_of_older_weights_stays_beside_new_ones(trained: Trained, tmp_path: Path):
    command = ["export", str(trained.directory), "--out", str(tmp_path / "a"), "--no-clip"]
    assert main(command) == 0
    for name in ("clip.webp", "model.onnx"):
        (tmp_path / "a" / name).touch()
    assert main(command) == 0
    assert not {"clip.webp", "model.onnx"} & {path.name for path in (tmp_path / "a").iterdir()}


def test_onnx_decides_as_torch_does(trained: Trained, tmp_path: Path):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    from crosstraj.analysis.export.onnx_file import BOUND, Deciding, check, onnx_bytes

    found = load(trained.directory)
    data = onnx_bytes(found, (64, 64, 3))
    other = Deciding(found.agent)
    with torch.no_grad():
        other.agent.policy.bias[0] += 10 * BOUND
    with pytest.raises(BadInput, match="log_probs differ from torch's"):
        check(data, other, (64, 64, 3))
