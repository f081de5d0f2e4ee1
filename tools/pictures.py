"""The pictures of docs/ that show our pages and clips: `python -m tools.pictures RUN`.

RUN is a run of a method with prototypes, a short one will do; the report is that of results/learn.
Pages are made by the commands of the package and photographed by chromium, which must be installed
(apt-get install chromium).
"""

import argparse
import io
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from PIL import Image

from crosstraj.cli.main import main as crosstraj
from crosstraj.errors import BadInput

ROOT = Path(__file__).parents[1]
DOCS, REPORTED = ROOT / "docs", ROOT / "results/learn"
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking")
PATIENCE = 10_000  # milliseconds of the page's own time, for what its scripts draw
STEPS, SHOWN = 40, 30  # of the clip, and which of its pictures is kept
COLOURS = 256  # of a kept picture: a third of the bytes


def photograph(page: Path, size: tuple[int, int]) -> Image.Image:
    """The upper part of a page, in light colours."""
    browser = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if browser is None:
        raise BadInput("no chromium is installed; apt-get install chromium, or set CHROMIUM")
    with tempfile.TemporaryDirectory() as place:
        shot = Path(place) / "shot.png"
        command = [browser, *FLAGS, "--hide-scrollbars", f"--window-size={size[0]},{size[1]}"]
        command += [f"--virtual-time-budget={PATIENCE}", f"--screenshot={shot}"]
        subprocess.run([*command, page.resolve().as_uri()], check=True, capture_output=True)
        return Image.open(io.BytesIO(shot.read_bytes()))


def keep(picture: Image.Image, name: str) -> Path:
    path = DOCS / name
    picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    return path


def made(*words: str) -> None:
    if code := crosstraj(list(words)):
        raise BadInput(f"crosstraj {' '.join(words)} ended with {code}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    run = str(parser.parse_args().run)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        made("explore", run, "--out", str(place / "explore.html"))
        print(keep(photograph(place / "explore.html", (1280, 1000)), "explore.png"))
        made("report", str(REPORTED), "--out", str(place / "report"))
        print(keep(photograph(place / "report/index.html", (1100, 1150)), "report.png"))
        made("watch", run, "--steps", str(STEPS), "--out", str(place / "clip.webp"))
        with Image.open(place / "clip.webp") as clip:
            clip.seek(SHOWN)
            print(keep(clip, "watch.png"))


if __name__ == "__main__":
    main()
