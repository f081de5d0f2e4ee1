"""The table `paired`: what each variant gains over the baseline, pair by pair, and in words."""

import math
from pathlib import Path

from crosstraj.experiments.plan import Experiment
from crosstraj.experiments.tables.decision import at_look, compared, unclaimed
from crosstraj.experiments.tables.page import heading, write_page
from crosstraj.experiments.tables.results import Result
from crosstraj.experiments.tables.returns import by_cell, details, draw, notes
from crosstraj.experiments.tables.scores import returns_of
from crosstraj.report.cells import NONE, number, with_interval
from crosstraj.report.document import marked_table
from crosstraj.report.permutation import (
    EXACT,
    LEVEL,
    Verdict,
    in_words,
    is_shown,
    measured,
    verdict,
)
from crosstraj.report.statistics import RESAMPLES, Estimate, spread

MEANING = (
    "Relative gain, in per cent: mean over games and seeds of (R_variant - R_baseline) / (mean "
    "R_baseline - R_random), paired by game and seed (means over the paired seeds); R_random is "
    "the return of random play on the same kind of levels (results/random). In brackets "
    "the 95 % percentile interval of a bootstrap "
    f"over seeds within each game ({RESAMPLES:,} resamples), which is too narrow for a handful of "
    "seeds and decides nothing. p: two-sided sign-flip permutation "
    f"test over the pairs, by all patterns of signs where there are at most {EXACT:,}, otherwise "
    "by as many drawn with a fixed seed. Not rejected: the gains that this test does not reject if "
    "each pair's is taken to lie symmetrically around them; all others are excluded. A difference "
    "is shown, and in bold, where p is at most {level:.2g}, so that no gain is not among them, and "
    "there are two seeds at least. Seeds that a game lacks are left out of all."
)


def paired(plan: Experiment, results: list[Result], out: Path) -> list[Path]:
    """Gains over the baseline in a table and in words, then everything by row."""
    cells = by_cell(results)
    games = list(dict.fromkeys(game for _, game in cells))
    others = [v for v in dict.fromkeys(variant for variant, _ in cells) if v != plan.baseline]
    pairs = {variant: compared(plan, variant, results) for variant in others}
    level = LEVEL - (plan.look.success if plan.look else 0)  # what the look may take is taken here
    found = {variant: verdict(*one, level=level) for variant, one in pairs.items()}
    silent = {variant: unclaimed(plan, variant, one) for variant, one in pairs.items()}
    said = [sentence(plan.baseline, v, one, silent[v]) for v, one in found.items()]
    parts = [heading(plan, results), gains(plan.baseline, games, found, silent), "\n".join(said)]
    if plan.look:
        parts.append(at_look(plan, plan.look, pairs[plan.look.variant]).words)
    chance = {result.game: result.chance for result in results}
    parts += [ground(plan.baseline, returns_of(cells, plan.baseline, games), chance)]
    parts += [MEANING.format(level=level), *left_out(found)]
    parts += [details(cells, plan.levels), notes(results, plan.levels)]
    values = {
        "experiment": plan.name,
        "scale": plan.scale,
        "baseline": plan.baseline,
        "levels": plan.levels,
        "random": chance,
        "verdicts": found,
        "runs": results,
    }
    return [*write_page(out, parts, values), draw(plan, cells, out / "figure.png")]


def sentence(baseline: str, variant: str, found: Verdict, silent: str) -> str:
    """What may be said of a variant, or its figures and why nothing is said of them."""
    if silent and found.pairs:
        return f"- {measured(variant, baseline, found)}; no claim: {silent}."
    return f"- {in_words(variant, baseline, found)}"


def gains(
    baseline: str, games: list[str], found: dict[str, Verdict], silent: dict[str, str]
) -> str:
    """A line per variant: gain by game, gain of all with both intervals, p, pairs."""
    head = (f"gain over {baseline}, %", *games, "all games", "not rejected", "p", "pairs")
    lines = []
    for variant, one in found.items():
        shown = [percent(one.by_game[g]) if g in one.by_game else NONE for g in games]
        whole = percent(*one.gain) if one.pairs else NONE
        p = f"{one.p:.2g}" if one.pairs else NONE
        whole = f"**{whole}**" if is_shown(one) and not silent[variant] else whole
        lines.append([variant, *shown, whole, limits(one), p, str(one.pairs)])
    return marked_table(head, lines)


def limits(found: Verdict) -> str:
    """The gains that are not excluded, in per cent."""
    if math.isnan(found.low):
        return NONE
    if math.isinf(found.low):
        return "any"
    return f"{100 * found.low:+.1f} to {100 * found.high:+.1f}"


def percent(*shares: float) -> str:
    """A share of what was learnt, with its interval if it has one."""
    return with_interval(Estimate(*(100 * share for share in shares)), "+.1f")


def ground(baseline: str, scores: dict[str, dict[int, float]], chance: dict[str, float]) -> str:
    """What the gains are shares of: the baseline above random play, by game."""
    lines = []
    for game, by_seed in scores.items():
        mean = spread(by_seed.values()).mean
        values = (chance[game], mean, mean - chance[game])
        lines.append([game, *(number(value, absent=NONE) for value in values)])
    return marked_table(["game", "random play", baseline, "above random"], lines)


def left_out(found: dict[str, Verdict]) -> list[str]:
    """Games without a gain, and why, in words."""
    lines = [
        f"- {variant}, {game}: left out, {why}"
        for variant, one in found.items()
        for game, why in one.left_out.items()
    ]
    return ["\n".join(lines)] if lines else []
