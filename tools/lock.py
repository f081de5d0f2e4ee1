"""`make lock`: resolve what crosstraj and its extras need on this Python, and print exact versions.

The game engine is left out: it has a lock of its own and is installed without what its metadata
asks for. So are the CUDA packages of torch's build for Linux, which torch pins itself, and W&B:
with all that it needs it is 200 MB, for one flag, and the tests of its mirror need none of it.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

BUILDING = ("hatchling", "editables")  # `make setup` installs this package without isolation
TORCH = "torch==2.13.0"
NUMPY = "numpy<2" if sys.version_info < (3, 12) else "numpy>=2"  # the tests meet both
UNLOCKED = ("wandb",)  # extras
CUDA = re.compile(r"cuda|nvidia|triton", re.IGNORECASE)


def resolve(extras: list[str], kept: list[str]) -> dict[str, str]:
    """Versions by name, as pip would install them into an empty environment."""
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
    wanted = [f".[{','.join(extras)}]", TORCH, NUMPY, *BUILDING]
    limits = [part for lock in kept for part in ("--constraint", lock)]
    said = subprocess.run(
        [*pip, "--report", "-", *limits, *wanted], stdout=subprocess.PIPE, check=True, text=True
    )
    found: list[dict[str, Any]] = json.loads(said.stdout)["install"]
    return {each["metadata"]["name"]: each["metadata"]["version"] for each in found}


def main(kept: list[str]) -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    offered: dict[str, list[str]] = project["optional-dependencies"]
    with_engine = {name for name in offered if any("procgen" in need for need in offered[name])}
    extras = [name for name in offered if name not in with_engine and name not in UNLOCKED]
    versions = resolve(extras, kept)
    print("# Exact versions of everything that `make run` and `make test` install, but the engine.")
    for name in sorted(versions, key=str.lower):
        if name != project["name"] and not CUDA.match(name):
            print(f"{name}=={versions[name].partition('+')[0]}")


if __name__ == "__main__":
    main(sys.argv[1:])
