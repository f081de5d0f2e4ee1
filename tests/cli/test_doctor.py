"""What `crosstraj doctor` foretells of training on a machine."""

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from crosstraj.cli import doctor
from crosstraj.cli.main import main
from crosstraj.config.presets import preset
from crosstraj.envs.load_engine import engine_name
from crosstraj.learning import speed
from crosstraj.nn import compiler
from tests.cli.answers import Capture, answer


def test_doctor_says_what_a_run_will_do_here(
    monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    spent: list[tuple[str, float]] = []

    def timed(precision: str, seconds: float) -> float:
        spent.append((precision, seconds))
        return 1234.5 if precision == "fp32" else 2000.4

    monkeypatch.setattr(speed, "frames_per_second", timed)
    monkeypatch.setattr(doctor, "usable_cores", lambda: 3)
    monkeypatch.setenv("CC", "no-such-compiler")
    compiler.forget()
    for bf16, asked in ((True, [("fp32", 4.0), ("bf16", 4.0)]), (False, [("fp32", 8.0)])):
        spent.clear()
        monkeypatch.setattr(compiler, "has_bf16", lambda bf16=bf16: bf16)
        doctor.foretell_training(8.0)
        out = capfd.readouterr().out
        assert "kernels         torch's convolutions (there is no C compiler; it would" in out
        assert ("--machine.precision bf16 would be faster" in out) is bf16
        assert "threads         3 (one run" in out
        assert "training        1,234 frames/s: PPO with the default values, fp32" in out
        assert ("2,000 frames/s" in out) is bf16
        assert spent == asked


def test_the_speed_of_training_is_frames_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three updates of 64 frames are counted, by a clock that moves a second at each look."""
    tiny = preset("ppo", "paper")
    tiny = replace(tiny, envs=4, rollout_steps=16, encoder="laptop")
    monkeypatch.setattr(speed, "trial", lambda precision: tiny)
    ticks = iter(range(100))
    monkeypatch.setattr(speed, "time", SimpleNamespace(monotonic=lambda: float(next(ticks))))
    done: list[int] = []
    update = speed._update
    monkeypatch.setattr(speed, "_update", lambda training: (done.append(1), update(training)))
    # Looks: begin 0; 1 after one update and 2 after two are less than 3 s; 3 after three; end 4.
    assert speed.frames_per_second("fp32", 3.0) == 3 * 64 / 4
    assert len(done) == 4


def test_what_is_timed_learns_as_a_default_run_does() -> None:
    default, tried = preset("ppo", "default"), speed.trial("fp32")
    for config in (default, tried):
        frames, policy = config.rollout_frames, config.policy
        assert (frames // policy.minibatches, policy.epochs, config.encoder) == (512, 3, "slim")
    assert tried.rollout_frames < default.rollout_frames


def test_doctor_asks_for_no_more_than_training_needs() -> None:
    """What docs/machines.md installs must satisfy it: the package and its extra `train`."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    installed = project["dependencies"] + project["optional-dependencies"]["train"]
    assert set(doctor.NEEDED) == {re.split("[<>=]", line)[0] for line in installed}


def test_doctor_finds_nothing_wrong_here(capfd: Capture) -> None:
    code, out, _ = answer(capfd, "doctor", "--seconds", "0.1", "--training", "0")
    assert code == 0
    assert re.search(rf"^engine +{engine_name()}, fine: [\d,]+ frames/s", out, re.MULTILINE)
    assert re.search(r"^torch +\d", out, re.MULTILINE)
    assert not re.search(r"^training", out, re.MULTILINE)


def test_doctor_names_what_is_missing_and_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    absent = ("torch", "ale-py")
    monkeypatch.setattr(doctor, "_version", lambda package: None if package in absent else "1")
    code, out, error = answer(capfd, "doctor")
    assert code == 1
    assert "missing: pip install torch" in out
    assert "pip install 'crosstraj[atari]'" in out
    assert error == "crosstraj: something is missing: see above\n"


def test_doctor_says_why_the_engine_does_not_start(
    monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    def broken(seconds: float) -> tuple[float, bool, int]:
        raise OSError("libGL.so.1: cannot open shared object file")

    monkeypatch.setattr(doctor, "_play", broken)
    code, out, error = answer(capfd, "doctor")
    assert code == 1
    assert "broken: OSError: libGL.so.1" in out
    for name in ("kernels", "precision", "threads"):  # other environments train all the same
        assert re.search(rf"^{name} +\S", out, re.MULTILINE)
    assert not re.search(r"^training", out, re.MULTILINE)
    assert "other environments and the losses work without the engine" in error


def test_doctor_does_not_call_an_engine_fine_in_which_nothing_moves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for outcome in ((1e4, False, 3), (1e4, True, 0)):
        monkeypatch.setattr(doctor, "_play", lambda seconds, outcome=outcome: outcome)
        assert main(["doctor"]) == 1
