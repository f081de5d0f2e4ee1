"""What the rule of a file says of its one variant: at the look, and at the end.

A rule allows a claim at these two moments alone. Whoever looks at every unfinished table, and
stops at the first one that shows something, finds a difference where there is none far more often
than said. Nothing is decided while a pair is missing either.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from crosstraj.experiments.look import Look
from crosstraj.experiments.plan import Experiment
from crosstraj.experiments.tables.results import Result
from crosstraj.experiments.tables.returns import by_cell, random_by_game
from crosstraj.experiments.tables.scores import returns_of
from crosstraj.report.permutation import LEVEL, Returns, is_shown, pair, verdict


class Compared(NamedTuple):
    """A variant and the baseline, as far as their runs are finished."""

    ours: Returns
    theirs: Returns
    chance: dict[str, float]  # random play, by game

    def first(self, seeds: Sequence[int]) -> "Compared":
        """The same, of these seeds alone."""
        return self._replace(ours=_of(seeds, self.ours), theirs=_of(seeds, self.theirs))

    def missing(self, games: Iterable[str], seeds: Sequence[int]) -> str:
        """Which of these pairs there are not, and why; nothing if there are all."""
        due = [(game, seed) for seed in seeds for game in games]
        absent = [f"{game} s{seed}" for game, seed in due if not self._has(game, seed)]
        if absent:
            return f"{len(absent)} of {len(due)} pairs are not finished, such as {absent[0]}"
        left_out = pair(*self).left_out
        return "; ".join(f"{game} is left out, {why}" for game, why in left_out.items())

    def _has(self, game: str, seed: int) -> bool:
        both = (found.get(game, {}).get(seed, math.nan) for found in (self.ours, self.theirs))
        return math.isfinite(sum(both))


def _of(seeds: Sequence[int], returns: Returns) -> Returns:
    return {game: {s: r for s, r in row.items() if s in seeds} for game, row in returns.items()}


class Decision(NamedTuple):
    says: Literal["stop", "go on", "nothing"]
    words: str


def compared(plan: Experiment, results: list[Result], baseline: str) -> dict[str, Compared]:
    """The runs of each variant beside those of a baseline, as far as they are finished."""
    cells = by_cell(results)
    games = list(dict.fromkeys(game for _, game in cells))
    chance = random_by_game(cells)
    theirs = returns_of(cells, baseline, games)
    return {
        variant: Compared(returns_of(cells, variant, games), theirs, chance)
        for variant in dict.fromkeys(variant for variant, _ in cells)
        if variant != baseline
    }


def at_look(plan: Experiment, look: Look, found: Compared) -> Decision:
    """What the rule says of the seeds that the look is at."""
    seeds = plan.seeds[: look.seeds]
    found = found.first(seeds)
    said = (
        f"**The look** at {look.variant} over {plan.baseline} after {look.seeds} seeds, by the "
        f"rule of the file: stop for success at p <= {look.success}, stop for futility where a "
        f"gain above {100 * look.futility:g} % is excluded; otherwise p <= "
        f"{LEVEL - look.success:g} counts at the end. "
    )
    if missing := found.missing(plan.games, seeds):
        return Decision("nothing", f"{said}It decides nothing: {missing}.")
    shown, bounds = verdict(*found, level=look.success), verdict(*found)
    figures = (
        f"{100 * shown.gain.value:+.1f} %, p = {shown.p:.2g}; at 95 % not excluded "
        f"{100 * bounds.low:+.1f} % to {100 * bounds.high:+.1f} %"
    )
    if is_shown(shown):
        what = "gain" if shown.gain.value > 0 else "loss"
        return Decision("stop", f"{said}It says: **stop: a {what} is shown** ({figures}).")
    if bounds.high < look.futility:
        why = "stop: more runs would not find a gain of that size"
        return Decision("stop", f"{said}It says: **{why}** ({figures}).")
    return Decision("go on", f"{said}It says: **go on to the end** ({figures}).")


def unclaimed(plan: Experiment, variant: str, found: Compared) -> str:
    """Why nothing may be claimed of a variant's gain over the first baseline; "": it may be."""
    if variant in plan.beside:
        return "it is a baseline itself"
    if plan.look is None:
        return ""
    if variant != plan.look.variant:
        return f"the file allows one of {plan.look.variant} alone"
    if missing := found.missing(plan.games, plan.seeds):
        return f"the file allows one at its look and one at the end, and {missing}"
    return ""
