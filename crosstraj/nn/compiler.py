"""Our C files, compiled by the machine's own compiler when first asked for.

What was compiled is kept in the user's cache, one file per source, compiler, processor and flags;
where that cannot be written it is compiled for this process alone.
"""

import ctypes
import functools
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import torch

from crosstraj.disk import fsync
from crosstraj.errors import BadInput

FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fopenmp", "-shared", "-fPIC")
PATIENCE = 300  # seconds for a compiler, of which ours takes a few
_ONE_AT_A_TIME = threading.Lock()  # a run compiles beside the engine's start


def compiler() -> list[str]:
    """The C compiler of this machine: cc, or what CC says, with its options; empty: there is none.

    CC may be a path with blanks in it, or a command such as "ccache gcc".
    """
    said = os.environ.get("CC", "").strip() or "cc"
    try:
        ways = [[said], shlex.split(said)]
    except ValueError:  # a quotation mark without its partner
        ways = [[said]]
    for program, *options in ways:
        if found := shutil.which(program):
            return [found, *options]
    return []


def cache() -> Path:
    """Where compiled files are kept."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "crosstraj"


def compiled(*files: Path, flags: tuple[str, ...] = ()) -> ctypes.CDLL:
    """The functions of a C file, which includes the others; `BadInput` says why there are none."""
    with _ONE_AT_A_TIME:
        return _compiled(files, flags)


@functools.cache
def _compiled(files: tuple[Path, ...], flags: tuple[str, ...]) -> ctypes.CDLL:
    program = compiler()
    if not program:
        raise BadInput("there is no C compiler; it would be faster with one: install gcc or clang")
    try:
        return _load(program, files, (*FLAGS, *flags))
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines()[:1]
        why = f"{program[0]} failed ({said[0] if said else f'exit code {error.returncode}'})"
    except subprocess.TimeoutExpired:
        why = f"{program[0]} was not done after {PATIENCE} seconds"
    except (OSError, RuntimeError) as error:  # a compiler that cannot be run, no room on any disk
        why = str(error)
    raise BadInput(f"the C compiler does not work: {why}")


def forget() -> None:
    """Look at compiler and cache again when next asked."""
    _compiled.cache_clear()


def kept(library: ctypes.CDLL) -> str:
    """Where what was compiled is, in words."""
    place = Path(library._name)
    if place.exists():
        return f"compiled once, kept in {place.parent}"
    return "compiled for this run alone, because the cache of the user cannot be used"


def _load(program: list[str], files: tuple[Path, ...], flags: tuple[str, ...]) -> ctypes.CDLL:
    version = _run([*program, "--version"])
    source, text = files[0], b"".join(path.read_bytes() for path in files)
    text += version + " ".join(flags).encode() + described().encode()
    name = f"{source.stem}-{hashlib.sha256(text).hexdigest()[:16]}.so"
    command = [*program, *flags, str(source), "-lm", "-o"]
    said = f"compiling {source.name} for this processor, which takes some seconds:"
    try:
        built = cache() / name
        if not built.exists():
            _build(command, built, f"{said} once")
        return ctypes.CDLL(str(built))
    except (OSError, RuntimeError):  # no home, not to be written or run from, or a torn file
        with tempfile.TemporaryDirectory(prefix="crosstraj-") as place:
            own = Path(place) / name
            _build(command, own, f"{said} for this run alone")
            return ctypes.CDLL(str(own))  # stays loaded when its file is gone


def _run(command: list[str]) -> bytes:
    return subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE).stdout


def _build(command: list[str], built: Path, sentence: str) -> None:
    """Whole or not at all: another process may be doing the same."""
    built.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=built.parent) as scratch:
        made = Path(scratch) / built.name
        _say(sentence)
        _run([*command, str(made)])
        fsync(made)
        made.rename(built)


def _say(sentence: str) -> None:
    """To who waits for it; a standard error that is full or closed costs the sentence alone."""
    if sys.stderr is not None:  # print would take standard output in its place
        with suppress(OSError, ValueError):
            print(sentence, file=sys.stderr, flush=True)


def described() -> str:
    """What -march=native looks at, since homes are shared between machines."""
    known = (platform.processor(), torch.backends.cpu.get_cpu_capability())
    told = {
        f"{key}: {value}" for key, value in _told() if key in ("model name", "flags", "Features")
    }
    return "\n".join((*known, *sorted(told)))


def has_bf16() -> bool:
    """Has this processor instructions for products in bfloat16? Without them it is slow."""
    return bool(_instructions() & {"avx512_bf16", "amx_bf16", "bf16"})


def has_dot_products() -> bool:
    """Has it those that our own kernels in bfloat16 are made of?"""
    return "avx512_bf16" in _instructions()


def _instructions() -> set[str]:
    told = [value for key, value in _told() if key in ("flags", "Features")]
    return {word for value in told for word in value.split()}


def _told() -> list[tuple[str, str]]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return []
    return [(k.strip(), v.strip()) for k, _, v in (line.partition(":") for line in lines)]
