"""The engine's C library: interfaces, name, and words where it is missing or broken."""

import ctypes
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

from crosstraj.envs import load_engine
from crosstraj.envs.load_engine import INTERFACES, Build, engine_name
from crosstraj.errors import BadInput


def test_the_interfaces_lie_in_memory_as_the_two_headers_say() -> None:
    """One of them only is met by the build that is installed here."""
    old, new = INTERFACES[1], INTERFACES[3]
    assert (old.tensor.shape.offset, old.tensor.rank.offset) == (136, 200)  # type: ignore[attr-defined]
    assert (new.tensor.rank.offset, new.tensor.shape.offset) == (136, 140)  # type: ignore[attr-defined]
    assert ctypes.sizeof(old.tensor) == ctypes.sizeof(new.tensor) == 212
    orders = [[name for name, _ in interface.buffers._fields_] for interface in (old, new)]  # type: ignore[misc]
    assert orders == [
        ["frames", "reward", "first", "info", "action"],
        ["frames", "action", "info", "reward", "first"],
    ]
    assert ctypes.sizeof(load_engine.Option) == 144


def test_a_missing_engine_is_named_with_the_command_that_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(load_engine, "PACKAGES", {"procgen-of-nobody": "procgen"})
    with pytest.raises(BadInput, match=r"not installed.*pip install --no-deps procgen-mirror=="):
        engine_name()


def test_an_engine_that_does_not_load_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "prebuilt").mkdir()
    (tmp_path / "prebuilt" / "libenv.so").write_bytes(b"no library")
    monkeypatch.setattr(load_engine, "installed", lambda: Build("procgen-gym", "9", tmp_path))
    with pytest.raises(BadInput, match=r"procgen-gym 9\) cannot be loaded: .*libenv.so"):
        load_engine.load.__wrapped__()


def test_an_unknown_interface_is_refused() -> None:
    with pytest.raises(BadInput, match="has version 2 of the engine's interface, and only 1 and 3"):
        load_engine.interface_of(2)


def test_the_name_of_the_engine_is_its_package_and_version() -> None:
    package = "procgen-mirror" if sys.version_info < (3, 13) else "procgen-gym"
    assert engine_name() == f"{package} {distribution(package).version}"
