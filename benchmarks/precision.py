"""What a frame costs the encoder in fp32 and in bf16: processor time on one thread, as a table.

    python -m benchmarks.precision

Processor time hardly depends on what else the machine does. The rate of a matrix product in the
same process says how far each is from the limit of its precision.
"""

import argparse
import time
from collections.abc import Callable
from typing import Literal

import torch

from crosstraj.nn.encoders import Impala, ImpalaKind
from crosstraj.nn.native import keep_memory

FRAMES, ACTING = 128, 64  # in training, and in acting
KINDS: tuple[ImpalaKind, ...] = ("slim", "impala", "laptop")
Way = Literal["fp32, torch's", "fp32, ours", "bf16, torch's", "bf16, ours"]
WAYS: tuple[Way, ...] = ("fp32, torch's", "fp32, ours", "bf16, torch's", "bf16, ours")


def encoder(kind: ImpalaKind, way: Way) -> Impala:
    made = Impala((64, 64, 3), kind, "none", torch.Generator().manual_seed(0))
    made.autocast = way.startswith("bf16")
    if way.endswith("ours"):
        made.use_native()
    return made


def processor_seconds(work: Callable[[], object], repeats: int) -> float:
    """The least of several times, after one that is not counted."""
    times = []
    for _ in range(repeats + 1):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times[1:])


def works(made: Impala) -> dict[str, tuple[Callable[[], object], int]]:
    """Training and acting, and how many frames each takes."""
    rng = torch.Generator().manual_seed(1)
    frames = torch.randint(256, (FRAMES, 64, 64, 3), generator=rng, dtype=torch.uint8)

    def train() -> None:
        made(frames).square().mean().backward()

    @torch.inference_mode()
    def act() -> None:
        made(frames[:ACTING])

    return {"training": (train, FRAMES), "acting": (act, ACTING)}


def product_rate(dtype: torch.dtype, repeats: int) -> float:
    """FLOPs per second of a large matrix product."""
    a = torch.randn(1024, 1024, generator=torch.Generator().manual_seed(2)).to(dtype)
    return 2 * 1024**3 / processor_seconds(lambda: a @ a, repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    keep_memory()  # as `crosstraj train` does
    for dtype in (torch.float32, torch.bfloat16):
        print(f"matrix product in {dtype}: {product_rate(dtype, repeats) / 1e9:.0f} GFLOP/s")
    print("\n| encoder | part | " + " | ".join(WAYS) + " |")
    print("|---" * (2 + len(WAYS)) + "|")
    for kind in KINDS:
        for part in ("training", "acting"):
            cells = []
            for way in WAYS:
                work, frames = works(encoder(kind, way))[part]
                cells.append(f"{processor_seconds(work, repeats) / frames * 1e3:.2f} ms")
            print(f"| `{kind}` | {part} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
