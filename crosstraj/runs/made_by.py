"""Which versions of the code made a run: `code` in its config.json, and in what is kept of it.

A fact for readers: nothing is refused because of it, and neither identity nor checkpoints know it.
"""

import json
import subprocess
from functools import cache
from pathlib import Path

import crosstraj
from crosstraj import disk
from crosstraj.runs.read import stored

PACKAGE = Path(crosstraj.__file__).resolve().parent
SECONDS = 10.0  # that git may take; a shared disk can be slow


@cache
def this_code() -> str:
    """The commit of a git checkout, and whether its files were changed; else the version."""
    root = PACKAGE.parent
    commit = git(root, "rev-parse", "--short=12", "HEAD")
    changes = git(root, "status", "--porcelain", "--", PACKAGE.name)
    if not commit or changes is None:
        return f"crosstraj {crosstraj.__version__}"
    return f"{commit} with changes" if changes else commit


def git(root: Path, *words: str) -> str | None:
    """What git says of the checkout at this root; None: it is none, or git does not say."""
    if not (root / ".git").exists():  # a repository further up is not ours
        return None
    place = (f"--git-dir={root / '.git'}", f"--work-tree={root}", "--no-optional-locks")
    try:
        done = subprocess.run(
            ["git", *place, *words], cwd=root, capture_output=True, text=True, timeout=SECONDS
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def codes_of(run: Path) -> tuple[str, ...]:
    """The versions that a run directory, or a kept run, was made by; none where it is not known."""
    try:
        found = stored(run).get("code", [])
    except (OSError, ValueError):  # whoever needs more of it than this fact says what is wrong
        return ()
    known = isinstance(found, list) and all(isinstance(code, str) for code in found)
    return tuple(found) if known else ()


def sign(run: Path) -> None:
    """Name this version in a run directory that goes on, unless it is the last one named."""
    known, code = codes_of(run), this_code()
    if known[-1:] == (code,):
        return
    whole = stored(run) | {"code": [*known, code]}
    disk.write_whole(run / "config.json", json.dumps(whole, indent=1).encode())
