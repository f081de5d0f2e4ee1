"""Finds the engine's C library, loads it, and declares how its nine functions are called.

It comes in two packages, one for each range of Python versions; neither is imported, which would
bring the old gym along. Their interfaces differ in the order of fields, so the library is asked
for the version of its interface first.
"""

import ctypes
import os
from ctypes import POINTER, Structure, c_char, c_char_p, c_int, c_int32, c_void_p
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, NamedTuple

from crosstraj.errors import BadInput

PACKAGES = {"procgen-mirror": "procgen", "procgen-gym": "procgen_gym"}  # and their directories


class Build(NamedTuple):
    package: str
    version: str
    data: Path  # its library and pictures


def installed() -> Build:
    """The engine of this Python environment, found without importing it."""
    for package, directory in PACKAGES.items():
        try:
            found = distribution(package)
        except PackageNotFoundError:
            continue
        return Build(package, found.version, Path(str(found.locate_file(f"{directory}/data"))))
    raise BadInput(
        "the Procgen engine is not installed; on Linux x86_64: pip install --no-deps "
        "procgen-mirror==0.10.7 (Python 3.11, 3.12) or procgen-gym==0.1.1 (3.13); "
        "other machines have no build of it, but any Gymnasium environment"
    )


def engine_name() -> str:
    """Package and version of the engine: in six games the two packages draw different pixels."""
    build = installed()
    return f"{build.package} {build.version}"


# --- The structures of the interface


class Option(Structure):
    _fields_ = (("name", c_char * 128), ("kind", c_int), ("count", c_int), ("data", c_void_p))


class Options(Structure):
    _fields_ = (("items", POINTER(Option)), ("count", c_int))


_NAMED = (("name", c_char * 128), ("scalar", c_int), ("kind", c_int))
_BOUNDS = (("low", c_int32), ("high", c_int32))


class _Tensor1(Structure):
    _fields_ = (*_NAMED, ("shape", c_int * 16), ("rank", c_int), *_BOUNDS)


class _Tensor3(Structure):
    _fields_ = (*_NAMED, ("rank", c_int), ("shape", c_int * 16), *_BOUNDS)


class _Buffers1(Structure):
    _fields_ = tuple((name, c_void_p) for name in ("frames", "reward", "first", "info", "action"))


class _Buffers3(Structure):
    _fields_ = tuple((name, c_void_p) for name in ("frames", "action", "info", "reward", "first"))


class Interface(NamedTuple):
    """What differs between the versions of the interface."""

    tensor: type[Structure]
    buffers: type[Structure]
    options: Any  # as an argument: by value, or by pointer


INTERFACES = {
    1: Interface(_Tensor1, _Buffers1, Options),
    3: Interface(_Tensor3, _Buffers3, POINTER(Options)),
}


# --- The library


class Library(NamedTuple):
    call: ctypes.CDLL
    interface: Interface
    pictures: str  # the directory, with the slash that the engine expects at its end


@cache
def load() -> Library:
    """The engine's library; it stays loaded, with its pictures, as long as the process lives."""
    build = installed()
    try:
        # Bound to its own symbols first: it brings a Qt that another package may bring, too.
        mode = os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_DEEPBIND
        call = ctypes.CDLL(str(build.data / "prebuilt" / "libenv.so"), mode)
    except OSError as error:
        raise BadInput(
            f"the Procgen engine ({engine_name()}) cannot be loaded: {error}; "
            f"pip install --no-deps --force-reinstall {build.package}=={build.version}"
        ) from error
    interface = interface_of(call.libenv_version())
    _declare(call, interface)
    return Library(call, interface, f"{build.data / 'assets'}/")


def interface_of(version: int) -> Interface:
    if version not in INTERFACES:
        raise BadInput(
            f"{engine_name()} has version {version} of the engine's interface, and only "
            f"{' and '.join(map(str, INTERFACES))} are known; install procgen-mirror==0.10.7 "
            "(Python 3.11, 3.12) or procgen-gym==0.1.1 (3.13)"
        )
    return INTERFACES[version]


def _declare(call: ctypes.CDLL, interface: Interface) -> None:
    """Say what each function takes and gives; undeclared, a pointer would be cut to 32 bits."""
    functions: tuple[tuple[Any, ...], ...] = (
        (call.libenv_make, c_void_p, c_int, interface.options),
        (call.libenv_get_tensortypes, c_int, c_void_p, c_int, c_void_p),
        (call.libenv_set_buffers, None, c_void_p, POINTER(interface.buffers)),
        (call.libenv_observe, None, c_void_p),
        (call.libenv_act, None, c_void_p),
        (call.libenv_close, None, c_void_p),
        (call.get_state, c_int, c_void_p, c_int, c_void_p, c_int),
        (call.set_state, None, c_void_p, c_int, c_char_p, c_int),
    )
    for function, result, *taken in functions:
        function.argtypes, function.restype = taken, result
