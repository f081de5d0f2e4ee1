"""The table `paired`: what each variant gains over the baseline, pair by pair, and in words."""

from pathlib import Path
from statistics import fmean

from crosstraj.experiments.file import Experiment
from crosstraj.experiments.tables.results import Result, write_json
from crosstraj.experiments.tables.returns import by_cell, details, draw, heading, notes
from crosstraj.experiments.tables.scores import Cells
from crosstraj.report.cells import NONE, number, row
from crosstraj.report.paired import EXACT, Verdict, in_words, is_shown, verdict
from crosstraj.report.statistics import RESAMPLES, Estimate

MEANING = (
    "Relative gain, in per cent: mean over games and seeds of (R_variant - R_baseline) / (mean "
    "R_baseline - R_random), paired by game and seed (means over the paired seeds); R_random is "
    "the return of random play on the same kind of levels (results/random). In brackets "
    "the 95 % percentile interval of a bootstrap "
    f"over seeds within each game ({RESAMPLES:,} resamples). p: two-sided sign-flip permutation "
    f"test over the pairs, by all patterns of signs where there are at most {EXACT:,}, otherwise "
    "by as many drawn with a fixed seed. A difference is shown, and in bold, where p is at most "
    ".05 and the interval is on one side of zero. Seeds that a game lacks are left out of all."
)


def paired(plan: Experiment, results: list[Result], out: Path) -> list[Path]:
    """Gains over the baseline in a table and in words, then everything by row."""
    cells = by_cell(results)
    games = list(dict.fromkeys(game for _, game in cells))
    chance = {result.game: result.chance for result in results}
    baseline = returns_of(cells, plan.baseline, games)
    found = {
        variant: verdict(returns_of(cells, variant, games), baseline, chance)
        for variant in dict.fromkeys(variant for variant, _ in cells)
        if variant != plan.baseline
    }
    said = [f"- {in_words(variant, plan.baseline, one)}" for variant, one in found.items()]
    parts = [heading(plan, results), gains(plan.baseline, games, found), "\n".join(said)]
    parts += [ground(plan.baseline, baseline, chance), MEANING, *left_out(found)]
    parts += [details(cells, plan.levels), notes(results, plan.levels)]
    (out / "table.md").write_text("\n\n".join(parts) + "\n")
    values = {
        "experiment": plan.name,
        "scale": plan.scale,
        "baseline": plan.baseline,
        "levels": plan.levels,
        "random": chance,
        "verdicts": found,
        "runs": results,
    }
    picture = draw(plan, cells, out / "figure.png")
    return [out / "table.md", write_json(out / "table.json", values), picture]


def returns_of(cells: Cells, variant: str, games: list[str]) -> dict[str, dict[int, float]]:
    """Held-out returns of the finished runs of a variant, by game and seed."""
    return {
        game: {r.seed: r.score for r in cells.get((variant, game), []) if r.finished}
        for game in games
    }


def gains(baseline: str, games: list[str], found: dict[str, Verdict]) -> str:
    """A line per variant: gain by game, gain of all with its interval, p, pairs."""
    head = (f"gain over {baseline}, %", *games, "all games", "p", "pairs")
    lines = [row(*head), "|---" * len(head) + "|"]
    for variant, one in found.items():
        shown = [percent(one.by_game[g]) if g in one.by_game else NONE for g in games]
        whole = interval(one.gain) if one.pairs else NONE
        p = f"{one.p:.2g}" if one.pairs else NONE
        whole = f"**{whole}**" if is_shown(one) else whole
        lines.append(row(variant, *shown, whole, p, str(one.pairs)))
    return "\n".join(lines)


def percent(share: float) -> str:
    return number(100 * share, 1, sign="+")


def interval(gain: Estimate) -> str:
    value, low, high = map(percent, gain)
    return value if low == "NaN" else f"{value} [{low}, {high}]"


def ground(baseline: str, scores: dict[str, dict[int, float]], chance: dict[str, float]) -> str:
    """What the gains are shares of: the baseline above random play, by game."""
    lines = [row("game", "random play", baseline, "above random"), "|---" * 4 + "|"]
    for game, by_seed in scores.items():
        mean = fmean(by_seed.values()) if by_seed else float("nan")
        values = (chance[game], mean, mean - chance[game])
        lines.append(row(game, *map(number, values)))
    return "\n".join(lines)


def left_out(found: dict[str, Verdict]) -> list[str]:
    """Games without a gain, and why, in words."""
    lines = [
        f"- {variant}, {game}: left out, {why}"
        for variant, one in found.items()
        for game, why in one.left_out.items()
    ]
    return ["\n".join(lines)] if lines else []
