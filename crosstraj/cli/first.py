"""`crosstraj first`: what `make run` does."""

from dataclasses import dataclass

from crosstraj.cli.parse import parse
from crosstraj.cli.train import train

# Where 65,536 frames with the small encoder are seen to be above random play.
GAME = "coinrun"


@dataclass(frozen=True)
class FirstArguments:
    env: str = GAME
    """The game; coinrun shows that it learns within minutes."""
    frames: int = 65_536
    """Frames of training."""
    episodes: int = 128
    """Episodes on unseen levels that agents are judged by."""


def first(arguments: list[str]) -> None:
    """A first run worth seeing: train CTRL for a short while, judge it, and show it on one page."""
    given = parse(FirstArguments, "first", first.__doc__, arguments)
    words = ["--method", "ctrl", "--env", given.env, "--encoder", "laptop"]
    words += ["--frames", str(given.frames), "--evaluation.every", str(max(1, given.frames // 8))]
    words += ["--evaluation.episodes", "64"]
    run = train(words)
    from crosstraj.analysis.first.story import tell

    told = tell(run, given.episodes)
    print(f"\n{told.verdict}\n\nopen this page in a browser: {told.page.resolve()}")
