"""A state tree and its two forms on disk: JSON for plain values, safetensors for tensors.

A state is a nested dict with string keys; its leaves are tensors, numpy arrays, int, float, str,
bool, None, and lists of those plain values. Decoding gives it back with every tensor and array as
a contiguous CPU tensor that owns its memory (the dtype is kept, strides are not).
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

State = dict[str, Any]
PLAIN = (int, float, str, bool, type(None))


def encode(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    """The JSON form of a state; its tensors are put into `tensors` under their paths.

    No key of a state holds a "/", so {"/tensor": ...} and {"/int": ...} cannot be one of its dicts.
    """
    if isinstance(value, dict):
        return {key: encode(value[key], _join(path, key), tensors) for key in value}
    if type(value) is list and all(type(item) in PLAIN for item in value):
        return [encode(item, path, tensors) for item in value]
    if isinstance(value, Tensor | np.ndarray):
        tensors[path] = _tensor(value, path)
        return {"/tensor": str(tensors[path].dtype)}
    if type(value) is int and value.bit_length() > 63:
        return {"/int": hex(value)}  # no limit on its digits, and no reader takes it for a float
    if type(value) in PLAIN:
        return value
    raise TypeError(
        f"{path} is a {type(value).__name__}: a state holds dicts, tensors, arrays, int, float, "
        "str, bool, None and lists of such plain values; convert it"
    )


def _join(path: str, key: Any) -> str:
    good = isinstance(key, str) and key.isprintable() and key and "/" not in key
    if not good or key == "__metadata__":  # the one name that safetensors keeps for itself
        raise TypeError(f"key {key!r} under {path!r}: a key is a printable string without '/'")
    return f"{path}/{key}" if path else str(key)


def _tensor(value: Tensor | np.ndarray[Any, Any], path: str) -> Tensor:
    if isinstance(value, Tensor):
        return value
    try:  # a copy in native byte order, because torch takes neither foreign nor read-only memory
        return torch.from_numpy(value.astype(value.dtype.newbyteorder("="), order="C"))
    except TypeError as error:
        raise TypeError(f"{path} is an array of {value.dtype}, which no tensor holds") from error


def pack(tensors: Mapping[str, Tensor], facts: dict[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file; tensors that share memory are written out apart."""
    apart: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, value in tensors.items():
        tensor = value.detach().cpu().contiguous()
        memory = tensor.untyped_storage().data_ptr()
        apart[name] = tensor.clone() if memory in seen else tensor
        seen.add(memory)
    packed: bytes = safetensors.torch.save(apart, metadata=facts)
    return packed


def read_facts(data: bytes) -> dict[str, str]:
    """What a safetensors file says beside its tensors; its header is JSON after its length."""
    length = int.from_bytes(data[:8], "little")
    facts: dict[str, str] = json.loads(data[8 : 8 + length])["__metadata__"]
    return facts


def unpack(data: bytes) -> dict[str, Tensor]:
    # Cloned: tensors that look into the file's bytes are neither aligned nor ours to write to.
    return {name: tensor.clone() for name, tensor in sorted(safetensors.torch.load(data).items())}


def decode(node: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    """The inverse of `encode`; it takes the tensors out of `tensors`, where none may remain."""
    if isinstance(node, list):
        return [decode(item, path, tensors) for item in node]
    if not isinstance(node, dict):
        return node
    if "/tensor" in node:
        return tensors.pop(path)
    if "/int" in node:
        return int(node["/int"], 16)
    return {key: decode(node[key], _join(path, key), tensors) for key in node}
