"""The wheel without extras: the losses train, nothing else is imported, the missing is named."""

import ast
import json
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
from contextlib import suppress
from email.parser import Parser
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from crosstraj.cli import train as cli_train
from crosstraj.errors import EXTRAS

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("program.py")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Put before everything else in the new environment: what it borrows, it borrows by name.
GATE = """
import sys
from importlib.machinery import PathFinder

class Borrowed:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if path is None and name in {names!r}:
            return PathFinder.find_spec(name, [{place!r}])

sys.meta_path.append(Borrowed)
"""


def run(*words: str | Path, fails: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*map(str, words)], capture_output=True, text=True)
    assert done.returncode == fails, done.stderr
    return done


def built(place: Path) -> Path:
    """The wheel of this checkout."""
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    run(*pip, "--disable-pip-version-check", "--wheel-dir", place, ROOT)
    (wheel,) = place.glob("crosstraj-*.whl")
    return wheel


def core_modules(site: Path) -> set[str]:
    """The modules of what the installed wheel says it needs, and of what those need in turn."""
    (metadata,) = site.glob("crosstraj-*.dist-info/METADATA")
    wanted = Parser().parsestr(metadata.read_text()).get_all("Requires-Dist") or []
    names, seen = [*wanted], set[str]()
    while names:
        need = Requirement(names.pop())
        name = re.sub(r"[-_.]+", "-", need.name).lower()
        if name not in seen and (need.marker is None or need.marker.evaluate({"extra": ""})):
            seen.add(name)
            with suppress(PackageNotFoundError):  # torch asks for what a build without CUDA lacks
                names += distribution(name).requires or []
    owners = packages_distributions()
    return {
        module
        for module, owned in owners.items()
        if seen & {re.sub(r"[-_.]+", "-", name).lower() for name in owned}
    }


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment with the wheel; of ours it sees the core's needs alone."""
    place = tmp_path_factory.mktemp("light")
    venv.create(place / "env", with_pip=False)
    python = place / "env" / "bin" / "python"
    (site,) = (place / "env" / "lib").glob("python*/site-packages")
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps")
    run(*pip, "--disable-pip-version-check", built(place))
    gate = GATE.format(names=core_modules(site), place=sysconfig.get_path("purelib"))
    (site / "sitecustomize.py").write_text(gate)
    return python


def check_program(told: dict[str, Any], environment: Path) -> None:
    assert Path(told["home"]).is_relative_to(environment)  # the wheel's, not the checkout's
    for name in ("CTRL", "Situations"):
        assert told[name][-1] < told[name][0] - 0.05, name
    assert told["refusal"].endswith(
        "is not installed, and this needs it: pip install 'crosstraj[train]'"
    )
    assert told["extras"] == []
    # Beyond torch, numpy at most (which torch itself imports where it is there).
    assert {*told["imported"]} - {*sys.stdlib_module_names} <= {"crosstraj", "torch", "numpy"}


def test_the_wheel_without_extras_trains_the_losses_and_imports_nothing_heavy(light: Path) -> None:
    told = json.loads(run(light, PROGRAM).stdout)
    check_program(told, light.parents[1])


def test_a_command_names_the_extra_that_it_needs(light: Path) -> None:
    command = light.with_name("crosstraj")
    assert run(command, "--version").stdout.strip() == PROJECT["version"]
    assert "situations" in run(command, "methods").stdout
    refused = run(command, "train", "--env", "bigfish", fails=2)
    assert refused.stderr.count("\n") == 1
    assert "is not installed, and this needs it: pip install 'crosstraj[train]'" in refused.stderr
    assert "pip install 'crosstraj[theory]'" in run(command, "theory", fails=2).stderr


def test_importing_the_package_or_the_objectives_imports_no_extra() -> None:
    """By the list of modules; `import crosstraj` alone does not even import torch."""
    code = "import sys, {}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    rooms = "crosstraj.objectives, crosstraj.outside.losses, crosstraj.outside.trajectories"
    whole = run(sys.executable, "-c", code.format(rooms)).stdout.split()
    assert "torch" in whole
    assert not set(whole) & set(EXTRAS)
    bare = run(sys.executable, "-c", code.format("crosstraj")).stdout.split()
    assert not {"torch", "numpy"} & set(bare)


def third_party() -> set[str]:
    """The packages of others that any file of ours imports, at its top or inside a function."""
    found = set()
    for path in (ROOT / "crosstraj").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add((node.module or "").partition(".")[0])
    return found - {*sys.stdlib_module_names, "crosstraj"}


def brought_by(extra: str) -> set[str]:
    """The distributions that an extra names, itself or through another of ours."""
    names = set()
    for line in PROJECT["optional-dependencies"][extra]:
        need = Requirement(line)
        if need.name == "crosstraj":
            names |= {name for other in need.extras for name in brought_by(other)}
        names.add(canonicalize_name(need.name))
    return names


def test_all_that_we_import_of_others_is_of_the_core_or_of_a_named_extra() -> None:
    core = {Requirement(line).name for line in PROJECT["dependencies"]}
    assert core == {"torch", "numpy", "safetensors"}
    assert third_party() - core <= set(EXTRAS)
    owners = packages_distributions()
    for module in third_party() - core:
        by = {canonicalize_name(name) for name in owners.get(module, [module])}  # not all are here
        assert by & brought_by(EXTRAS[module]), f"{module} does not come with {EXTRAS[module]}"


def test_the_extra_named_all_brings_every_other_that_our_package_imports() -> None:
    extras = set(PROJECT["optional-dependencies"]) - {"all", "bench", "docs", "recipes", "test"}
    for extra in extras:
        assert brought_by(extra) <= brought_by("all"), extra


def test_a_finished_run_is_not_spoilt_by_a_picture_that_cannot_be_drawn(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delitem(sys.modules, "crosstraj.report.curves", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)  # as if it were not installed
    cli_train._draw(tmp_path)
    said = capfd.readouterr().err
    assert said.startswith("curves.png could not be drawn: matplotlib")
    assert said.endswith("pip install 'crosstraj[report]'\n")


@pytest.mark.slow
def test_the_wheel_in_a_fresh_environment_with_numpy_2(tmp_path: Path) -> None:
    """As a person installs it, with what the index has now: gigabytes, where torch brings CUDA."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", built(tmp_path), "numpy>=2")
    told = json.loads(run(python, PROGRAM).stdout)
    check_program(told, tmp_path / "env")
    assert int(told["numpy"].partition(".")[0]) >= 2
