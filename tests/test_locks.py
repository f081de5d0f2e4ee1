"""The locks: one per Python, each with all that pyproject.toml asks for, none with the old gym."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tools import lock

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = ("3.11", "3.12", "3.13")


def lines(name: str) -> list[Requirement]:
    text = (ROOT / f"requirements-{name}.lock").read_text().splitlines()
    return [Requirement(line) for line in text if not line.startswith("#")]


def versions(name: str) -> dict[str, str]:
    return {canonicalize_name(each.name): str(each.specifier).removeprefix("==")
            for each in lines(name)}  # fmt: skip


def asked(python: str) -> list[Requirement]:
    """What the package and its extras need there, but for the engine and the extras' own sums."""
    extras = PROJECT["optional-dependencies"]
    names = [name for name in extras if name not in ("procgen", *lock.UNLOCKED)]
    texts = [*PROJECT["dependencies"], *(text for name in names for text in extras[name])]
    place = {"python_version": python, "sys_platform": "linux", "platform_machine": "x86_64"}
    needs = [need for text in texts if (need := Requirement(text)).name != PROJECT["name"]]
    return [need for need in needs if not need.marker or need.marker.evaluate(place)]


def test_there_is_a_lock_for_every_python_that_is_promised() -> None:
    promised = SpecifierSet(PROJECT["requires-python"])
    assert [f"3.{n}" for n in range(20) if f"3.{n}" in promised] == list(PYTHONS)
    locks = {path.name for path in ROOT.glob("requirements*.lock")}
    assert locks == {f"requirements-{name}.lock" for name in (*PYTHONS, "engine")}


@pytest.mark.parametrize("python", PYTHONS)
def test_a_lock_holds_what_is_asked_for_and_nothing_of_the_old_gym(python: str) -> None:
    locked = versions(python)
    missing = [str(n) for n in asked(python) if canonicalize_name(n.name) not in locked]
    assert missing == []  # `make lock KEEP=1 PYTHON=...` adds them
    assert [
        str(n) for n in asked(python) if locked[canonicalize_name(n.name)] not in n.specifier
    ] == []
    assert locked.keys() & {"gym", "gym3", "gym-notices", "cffi", "imageio-ffmpeg"} == set()


def test_the_locks_meet_both_generations_of_numpy() -> None:
    assert {python: versions(python)["numpy"][0] for python in PYTHONS} == {
        "3.11": "1",
        "3.12": "2",
        "3.13": "2",
    }


def test_the_engine_is_locked_as_the_extra_names_it() -> None:
    extra = [Requirement(text) for text in PROJECT["optional-dependencies"]["procgen"]]
    engines = [str(need) for need in extra if need.name != PROJECT["name"]]
    assert [str(line) for line in lines("engine")] == engines


def test_make_lock_leaves_out_the_engine_ourselves_and_what_torch_pins(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def resolve(extras: list[str], kept: list[str]) -> dict[str, str]:
        assert "test" in extras
        assert not {"procgen", "all", "wandb"} & {*extras}
        assert kept == ["old.lock"]
        return {"torch": "2.13.0+cpu", "crosstraj": "1", "nvidia-cublas": "13", "Arch": "7.2.0",
                "cuda-toolkit": "13", "triton": "3.7"}  # fmt: skip

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(lock, "resolve", resolve)
    lock.main(["old.lock"])
    assert capfd.readouterr().out.splitlines()[1:] == ["Arch==7.2.0", "torch==2.13.0"]
