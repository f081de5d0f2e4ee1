"""The Procgen games as their C library plays them: made, stepped, saved and closed.

The engine answers what it does not understand by ending the process, so its options are checked
here. It writes into arrays that are made once: `frames`, `reward`, `first` and `info` are
overwritten by every `observe`.
"""

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from crosstraj.cores import usable_cores
from crosstraj.envs.load_engine import Option, Options, load
from crosstraj.errors import BadInput

Array = npt.NDArray[Any]
Value = str | int | bool

OPTIONS: dict[str, type] = {
    "env_name": str,
    "start_level": int,
    "num_levels": int,
    "distribution_mode": int,
    "rand_seed": int,
    "num_threads": int,
    "center_agent": bool,
    "use_backgrounds": bool,
    "use_monochrome_assets": bool,
    "restrict_themes": bool,
    "use_generated_assets": bool,
    "paint_vel_info": bool,
}
# What nobody varies; the engine insists on being given all of its options.
FIXED: dict[str, Value] = {
    "num_actions": 15,
    "use_sequential_levels": False,
    "debug_mode": 0,
    "render_human": False,
}
OBSERVATION, ACTION, INFO = 1, 2, 3  # the engine's numbers for its spaces
# And for what is in a tensor.
KINDS: dict[int, np.dtype[Any]] = {1: np.dtype("u1"), 2: np.dtype("i4"), 3: np.dtype("f4")}
LARGEST_STATE = 2**20  # bytes per game
GIVE_UP = -1  # an action that ends the level


def default_threads(num_envs: int) -> int:
    """Engine threads; 0 steps the games in the caller's thread, which is faster for a small pool.

    Twice the cores was fastest for 64 games on 2 cores: the engine takes one lock per game, so a
    thread often waits. The results do not depend on the number.
    """
    cores = usable_cores()
    return 0 if cores == 1 or num_envs < 16 else min(2 * cores, num_envs // 4)


class Engine:
    """`count` copies of one game: `act`, then `observe`, is a step; `observe` first, to begin."""

    _handle: int | None = None

    def __init__(self, count: int, options: Mapping[str, Value]) -> None:
        _check(options)
        self.count = count
        self._call, self._interface, pictures = load()
        self._kept: list[object] = []  # the engine has pointers to these
        packed = self._pack({**options, **FIXED, "resource_root": pictures})
        self._handle = self._call.libenv_make(count, packed)
        observed, frames = self._allocate(OBSERVATION)
        acted, action = self._allocate(ACTION)
        self.info, info = self._allocate(INFO)
        self.frames: npt.NDArray[np.uint8] = observed["rgb"]  # [N, H, W, C]
        self.reward, self.first = np.zeros(count, np.float32), np.zeros(count, np.bool_)
        self._action = acted["action"]
        self._space = np.empty(LARGEST_STATE, np.uint8)  # where it writes a game down
        reward, first = self.reward.ctypes.data, self.first.ctypes.data
        buffers = self._interface.buffers(
            frames=frames, action=action, info=info, reward=reward, first=first
        )
        self._kept.append(buffers)
        self._call.libenv_set_buffers(self._handle, buffers)

    def _pack(self, options: Mapping[str, Value]) -> Options:
        items = (Option * len(options))()
        for item, (name, value) in zip(items, options.items(), strict=True):
            data = _as_array(value)
            kind = next(number for number, kind in KINDS.items() if kind == data.dtype)
            item.name, item.kind, item.count = name.encode(), kind, data.size
            item.data = data.ctypes.data
            self._kept.append(data)
        self._kept.append(items)
        return Options(items, len(items))

    def _allocate(self, space: int) -> tuple[dict[str, Array], int]:
        """The arrays of a space by name, and the address of pointers to each game's part."""
        number = self._call.libenv_get_tensortypes(self._handle, space, None)
        tensors = (self._interface.tensor * number)()
        self._call.libenv_get_tensortypes(self._handle, space, tensors)
        arrays: dict[str, Array] = {}
        parts: list[int] = []
        for tensor in tensors:
            array = np.zeros((self.count, *tensor.shape[: tensor.rank]), KINDS[tensor.kind])
            arrays[tensor.name.decode()] = array
            parts += [array.ctypes.data + game * array.strides[0] for game in range(self.count)]
        pointers = (ctypes.c_void_p * len(parts))(*parts)
        self._kept.append(pointers)
        return arrays, ctypes.addressof(pointers)

    @property
    def _games(self) -> int:
        """The engine's handle; a handle that was given back would end the process."""
        if self._handle is None:
            raise BadInput("the environment was closed; make another one")
        return self._handle

    def act(self, actions: Array | int) -> None:
        self._action[:] = actions
        self._call.libenv_act(self._games)

    def observe(self) -> None:
        self._call.libenv_observe(self._games)

    def save(self, game: int) -> bytes:
        """One game, as the engine writes it: the same bytes in every build."""
        size = self._call.get_state(self._games, game, self._space.ctypes.data, LARGEST_STATE)
        return self._space[:size].tobytes()

    def restore(self, game: int, state: bytes) -> None:
        """Continue a game, and show it; the engine trusts the bytes, so check them first."""
        self._call.set_state(self._games, game, state, len(state))

    def get_state(self) -> list[bytes]:
        return [self.save(game) for game in range(self.count)]

    def set_state(self, states: list[bytes]) -> None:
        for game, state in enumerate(states):
            self.restore(game, state)

    def close(self) -> None:
        if self._handle is not None:
            self._call.libenv_close(self._handle)
            self._handle = None

    def __del__(self) -> None:
        self.close()


def _as_array(value: Value) -> Array:
    match value:
        case str():
            return np.frombuffer(value.encode(), np.uint8)
        case bool():
            return np.array([value], np.uint8)
        case int():
            return np.array([value], np.int32)


def _check(options: Mapping[str, Value]) -> None:
    """What the engine would answer by ending the process, or by reading other bytes."""
    if odd := sorted(options.keys() ^ OPTIONS.keys()):
        raise BadInput(
            f"options {', '.join(odd)}: the engine takes all of {', '.join(OPTIONS)}, and no other"
        )
    for name, value in options.items():
        if type(value) is not OPTIONS[name]:
            raise BadInput(f"{name}={value!r}: the engine takes {OPTIONS[name].__name__} here")
        if isinstance(value, int) and not -(2**31) <= value < 2**31:
            raise BadInput(f"{name}={value}: the engine has 32 bits for it; give a smaller number")
