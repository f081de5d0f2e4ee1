"""`crosstraj probe`: the same table each time, and one sentence for what cannot be judged."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from crosstraj.analysis.probes import ranking
from crosstraj.analysis.probes.agents import Judged
from crosstraj.analysis.probes.ranking import Choices
from crosstraj.cli.main import main
from crosstraj.config.presets import plain
from crosstraj.errors import BadInput
from crosstraj.learning.load import untrained
from tests import conftest


def test_an_expert_with_skills_is_refused():
    config = replace(plain("diayn"), env="starpilot", encoder="laptop")
    choices = Choices(100, 4, 0.2, (), None)
    skilled = Judged("skilled", untrained(config))
    with pytest.raises(BadInput, match="skilled acts by skills"):
        ranking.play(skilled, SimpleNamespace(), "seen", choices)


SMALL = ("--frames", "200")


def test_probe_writes_the_same_table_and_figure_each_time(
    trained: conftest.Trained, clustered: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    step = sorted(int(path.name[5:]) for path in (clustered / "snapshots").iterdir())[0]
    for out in ("a", "b"):
        command = ["probe", str(clustered), "--expert", str(trained.directory), *SMALL]
        command += ["--out", str(tmp_path / out), "--step", str(step), "768"]
        assert main(command) == 0
    for name in ("probe.md", "probe.json", "probe.png"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    found = json.loads((tmp_path / "a/probe.json").read_text())
    names = [(one["name"], one["frames"]) for one in found["encoders"]]
    run = clustered.name
    assert names == [("untrained", 0), (run, step), (run, 768), ("the expert's own", 512)]
    assert found["facts"]["unseen_frames"] >= 200
    for one in found["encoders"]:
        assert one["share"]["low"] <= one["share"]["value"] <= one["share"]["high"]
        gap = one["share"]["value"] - found["encoders"][0]["share"]["value"]
        assert one["share_over_untrained"]["value"] == pytest.approx(gap)
    assert (tmp_path / "a/probe.png").read_bytes()[:4] == b"\x89PNG"
    out = capfd.readouterr().out
    assert "over first run" in out
    assert "hardly depend on the frame" in " ".join(out.split())
    assert not (clustered / "probe").exists()


def test_a_judged_run_with_the_experts_seed_is_named(
    trained: conftest.Trained, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(trained.directory, tmp_path / "run"))
    assert main(["probe", str(run), "--expert", str(trained.directory), *SMALL]) == 0
    assert "run has the expert's seed, 5" in " ".join(capfd.readouterr().out.split())
    found = json.loads((run / "probe/probe.json").read_text())
    _, judged, own = found["encoders"]
    assert judged["share"] == own["share"]  # the very same weights


def changed(run: Path, place: Path, **values: object) -> Path:
    """A copy of a run whose configuration says otherwise."""
    copy = Path(shutil.copytree(run, place))
    stored = json.loads((copy / "config.json").read_text())
    stored["config"] |= values
    (copy / "config.json").write_text(json.dumps(stored))
    return copy


def test_probe_refuses_in_one_sentence(
    trained: conftest.Trained, clustered: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    expert, run = str(trained.directory), str(clustered)
    other = str(changed(clustered, tmp_path / "other", env="bigfish"))
    stacked = str(changed(clustered, tmp_path / "stacked", frame_stack=2))
    for arguments, said in (
        ([other], f"{other} has env=bigfish and the expert {expert} has starpilot"),
        ([stacked], f"{stacked} has frame_stack=2 and the expert {expert} has 1"),
        ([run, "--step", "7"], f"{run} has no snapshot or checkpoint at 7 frames"),
        ([run, "--expert-step", "7"], f"{expert} has no snapshot or checkpoint at 7 frames"),
        ([run, "--frames", "9"], "--frames=9: must be at least 100"),
        ([run, "--every", "0"], "--every=0: must be at least 1"),
        ([run, "--random", "1.5"], "--random=1.5: must be at least 0 and at most 1"),
        ([run, run], "several runs need --out DIR"),
        ([], "no run is given"),
        ([str(tmp_path)], f"{tmp_path} is not a run directory"),
    ):
        capfd.readouterr()
        assert main(["probe", *SMALL, "--expert", expert, *arguments]) == 2
        error = capfd.readouterr().err
        assert said in error
        assert error.splitlines()[-1].startswith("crosstraj: ")


def test_the_help_of_probe_imports_no_torch() -> None:
    words = "import sys; from crosstraj.cli.main import main\ntry: main(['probe', '--help'])\n"
    words += "except SystemExit: sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", words], capture_output=True).returncode == 0
