"""Pictures as one moving picture: WebP and GIF by Pillow, MP4 where an encoder is installed."""

import io
import shutil
import subprocess
from bisect import bisect_right
from collections.abc import Iterable
from typing import Literal, assert_never, get_args

from PIL import Image

from crosstraj.errors import BadInput

Kind = Literal["webp", "gif", "mp4"]
QUALITIES = (5, 10, 15, 20, 30, 45, 60, 75)  # WebP's; the last that keeps to the budget
METHOD = 2  # WebP's; 0 is faster and a tenth larger, 4 slower and no smaller worth the time
BUDGET = 0.031  # bytes per pixel: 300 pictures of 2 x 2 tiles with their clusters: below 3 MB
COLOURS = 64  # a GIF's palette; more cost bytes and show little
SAMPLE = 16  # pictures whose colours speak for all
KEY = 5  # every fifth picture of a WebP is whole; of the others it has what has changed
RUNS = 3  # so many rows of KEY pictures: their size speaks for all


def kind_of(name: str) -> Kind:
    """The kind of file that a name asks for by its ending."""
    ending = name.rpartition(".")[2].lower()
    for kind in get_args(Kind):
        if ending == kind:
            checked: Kind = kind
            return checked
    raise BadInput(f"{name} must end with .webp, .gif or .mp4")


def encode(pictures: Iterable[Image.Image], kind: Kind, fps: int) -> bytes:
    """A moving picture that begins again when it is over (MP4: as its player likes)."""
    match kind:
        case "webp":
            whole = list(pictures)
            return _webp(whole, fps, _quality(whole))
        case "gif":
            return _animated(_few_colours(list(pictures)), "gif", fps, optimize=False)
        case "mp4":
            return _mp4(list(pictures), fps)
        case other:
            assert_never(other)


def _animated(pictures: list[Image.Image], form: str, fps: int, **how: object) -> bytes:
    file = io.BytesIO()
    first, *rest = pictures
    duration = round(1000 / fps)
    first.save(file, form, save_all=True, append_images=rest, duration=duration, loop=0, **how)
    return file.getvalue()


def _webp(pictures: list[Image.Image], fps: int, quality: int) -> bytes:
    # kmin just below kmax: the encoder tries both ways for one picture in KEY, not for each.
    return _animated(pictures, "webp", fps, quality=quality, method=METHOD, kmin=KEY - 1, kmax=KEY)


def _quality(pictures: list[Image.Image]) -> int:
    """The best quality that keeps to the budget: a tiled background takes little, a lawn a lot.

    Rows of pictures, from one whole picture to the next.
    """
    starts = {max(0, len(pictures) - KEY) * row // (RUNS - 1) for row in range(RUNS)}
    sample = [pictures[start : start + KEY] for start in starts]
    width, height = pictures[0].size
    budget = BUDGET * width * height * sum(map(len, sample))

    def size(quality: int) -> int:
        return sum(len(_webp(row, 1, quality)) for row in sample)

    return QUALITIES[max(0, bisect_right(QUALITIES, budget, key=size) - 1)]


def _few_colours(pictures: list[Image.Image]) -> list[Image.Image]:
    """All pictures in one palette, undithered: dots that come and go cost more than they show."""
    chosen = pictures[:: max(1, len(pictures) // SAMPLE)]
    width, height = chosen[0].size
    sample = Image.new("RGB", (width, height * len(chosen)))
    for number, picture in enumerate(chosen):
        sample.paste(picture, (0, number * height))
    palette = sample.quantize(COLOURS, Image.Quantize.MEDIANCUT)
    return [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]


def _mp4(pictures: list[Image.Image], fps: int) -> bytes:
    if (program := shutil.which("ffmpeg")) is None:
        raise BadInput(
            "MP4 needs ffmpeg, which is not installed; install it, or write .webp or .gif"
        )
    width, height = pictures[0].size
    command = [program, "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24"]
    command += ["-s", f"{width}x{height}", "-r", str(fps), "-i", "-", "-pix_fmt", "yuv420p"]
    command += ["-f", "mp4", "-movflags", "frag_keyframe+empty_moov", "-"]
    raw = b"".join(picture.tobytes() for picture in pictures)
    made = subprocess.run(command, input=raw, capture_output=True, check=False)
    if made.returncode or not made.stdout:
        said = made.stderr.decode(errors="replace").strip().splitlines()
        why = said[-1][:200] if said else "it does not say why"
        raise BadInput(f"{program} made no MP4 ({why}); write .webp or .gif")
    return made.stdout
