"""Faults amid operations on the disk, and whether two states are equal."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from crosstraj import disk

OPERATIONS = ("write_file", "fsync", "rename", "mkdir", "remove")


def equal(a: Any, b: Any) -> bool:
    """Equal in type, dtype, shape, order of keys and every bit, so that NaN equals itself."""
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, np.ndarray):
        a = torch.from_numpy(a.astype(a.dtype.newbyteorder("=")))
    if isinstance(a, Tensor):
        bits = [tensor.detach().contiguous().view(-1).view(torch.uint8) for tensor in (a, b)]
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(*bits)
    if isinstance(a, float):
        return isinstance(b, float) and repr(a) == repr(b)  # tells 0.0 from -0.0
    return type(a) is type(b) and bool(a == b)


class Fault:
    """Counts the operations on the disk and fails amid or after the n-th, and ever after."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, at: int, when: str, fail: Callable[[], None]
    ) -> None:
        self.count, self.at, self.when, self.fail = 0, at, when, fail
        for name in OPERATIONS:
            real = getattr(disk, name)
            monkeypatch.setattr(disk, name, self.around(name, real))

    def around(self, name: str, real: Callable[..., None]) -> Callable[..., None]:
        def operation(*arguments: Any) -> None:
            self.count += 1
            if self.count < self.at:
                return real(*arguments)
            if self.count == self.at and self.when == "after":
                real(*arguments)
            if self.count == self.at and self.when == "amid":
                self.half(name, arguments)
            return self.fail()

        return operation

    def half(self, name: str, arguments: Any) -> None:
        """Half of the bytes are written; half of the files of a directory are removed."""
        if name == "write_file":
            arguments[0].write_bytes(arguments[1][: len(arguments[1]) // 2])
        if name == "remove" and arguments[0].is_dir():
            for path in sorted(arguments[0].iterdir())[::2]:
                path.unlink()
