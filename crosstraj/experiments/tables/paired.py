"""The table `paired`: what each variant gains over the baseline, pair by pair, and in words."""

import math
from pathlib import Path

from crosstraj.experiments.plan import Experiment
from crosstraj.experiments.tables.decision import at_look, compared, unclaimed
from crosstraj.experiments.tables.page import heading, write_page
from crosstraj.experiments.tables.results import Result
from crosstraj.experiments.tables.returns import by_cell, details, draw, notes, random_by_game
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
    "is shown, and in bold, where a claim may be made, there are two seeds at least, and p is at "
    "most {level:.2g}. Seeds that a game lacks are left out of all."
)

BESIDE = (
    "Beside it, and deciding nothing, the same statistic over a further baseline, in shares of "
    "what that one has learnt: "
)


def paired(plan: Experiment, results: list[Result], out: Path) -> list[Path]:
    """Gains over the baseline in a table and in words, then everything by row."""
    cells = by_cell(results)
    games = list(dict.fromkeys(game for _, game in cells))
    pairs = compared(plan, results, plan.baseline)
    level = LEVEL - (plan.look.success if plan.look else 0)  # what the look may take is taken here
    found = {variant: verdict(*one, level=level) for variant, one in pairs.items()}
    silent = {variant: unclaimed(plan, variant, one) for variant, one in pairs.items()}
    parts = [heading(plan, results), gains(plan.baseline, games, found, silent)]
    parts += [sentences(plan.baseline, found, silent)]
    if plan.look:
        parts.append(at_look(plan, plan.look, pairs[plan.look.variant]).words)
    beside = {baseline: found_beside(plan, results, baseline) for baseline in plan.beside}
    for baseline, others in beside.items():
        silent = dict.fromkeys(others, f"{plan.baseline} alone decides")
        parts += [f"{BESIDE}{baseline}.", gains(baseline, games, others, silent)]
        parts += [sentences(baseline, others, silent)]
    chance = random_by_game(cells)
    returns = {b: returns_of(cells, b, games) for b in (plan.baseline, *plan.beside)}
    parts += [ground(baseline, scores, chance) for baseline, scores in returns.items()]
    parts += [MEANING.format(level=level), *left_out({plan.baseline: found} | beside)]
    parts += [details(cells, plan.levels), notes(results, plan.levels)]
    values = {
        "experiment": plan.name,
        "scale": plan.scale,
        "baseline": plan.baseline,
        "levels": plan.levels,
        "random": chance,
        "verdicts": found,
        "beside": beside,
        "runs": results,
    }
    return [*write_page(out, parts, values), draw(plan, cells, out / "figure.png")]


def found_beside(plan: Experiment, results: list[Result], baseline: str) -> dict[str, Verdict]:
    """What the variants that are no baseline gain over one that decides nothing."""
    return {
        variant: verdict(*one)
        for variant, one in compared(plan, results, baseline).items()
        if variant not in (plan.baseline, *plan.beside)
    }


def sentences(baseline: str, found: dict[str, Verdict], silent: dict[str, str]) -> str:
    """A line for each variant."""
    return "\n".join(sentence(baseline, v, one, silent[v]) for v, one in found.items())


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
        known = chance.get(game, math.nan)
        values = (known, mean, mean - known)
        lines.append([game, *(number(value, absent=NONE) for value in values)])
    return marked_table(["game", "random play", baseline, "above random"], lines)


def left_out(found: dict[str, dict[str, Verdict]]) -> list[str]:
    """Games without a gain over a baseline, and why, in words."""
    lines = [
        f"- {variant} over {baseline}, {game}: left out, {why}"
        for baseline, verdicts in found.items()
        for variant, one in verdicts.items()
        for game, why in one.left_out.items()
    ]
    return ["\n".join(lines)] if lines else []
