"""The state of Gymnasium's random generators as an array, and back: part of a saved game."""

import numpy as np
import numpy.typing as npt

WORD = 2**64


def packed(rng: np.random.Generator) -> npt.NDArray[np.uint64]:
    """The state of one of Gymnasium's generators (PCG64): two numbers of 128 bits, half a word."""
    state = rng.bit_generator.state
    inner = state["state"]
    words = [*divmod(inner["state"], WORD), *divmod(inner["inc"], WORD)]
    return np.array([*words, state["has_uint32"], state["uinteger"]], np.uint64)


def unpack(words: npt.NDArray[np.uint64], rng: np.random.Generator) -> None:
    """Gives a generator the state that another had when it was packed."""
    high, low, inc_high, inc_low, has_half, half = (int(word) for word in words)
    inner = {"state": high * WORD + low, "inc": inc_high * WORD + inc_low}
    whole = {"state": inner, "has_uint32": has_half, "uinteger": half}
    rng.bit_generator.state = {"bit_generator": "PCG64", **whole}
