"""The table `screen`: what an expert does and is paid, read off each variant's features.

It reads the weights of finished runs, and an expert plays for a minute in every game. What was
measured is kept beside the kept runs, or beside the table of a trial: the table can be made again
when the weights are gone.
"""

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from crosstraj.disk import make_directory
from crosstraj.experiments.kept import file_name
from crosstraj.experiments.plan import Experiment
from crosstraj.experiments.tables.page import heading, unreadable, write_page
from crosstraj.experiments.tables.results import Result
from crosstraj.report.cells import RANDOM_PLAY, with_interval
from crosstraj.report.document import marked_table
from crosstraj.runs.shipped import named

if TYPE_CHECKING:
    from crosstraj.analysis.probes.variants import Line, Screened

MEANING = (
    "Explained: the share of the expert's action entropy that a linear probe of the features "
    "explains, fitted on seen levels and tested on {levels} ones; 0 knows nothing, 1 everything. "
    "AUC: for a reward within ten steps; .5 knows nothing. Means over seeds, and differences to "
    "the untrained encoders and to {baseline} of the same seeds; in brackets 95 % intervals over "
    "levels, which say nothing of other seeds. Returns are those of each seed. A variant passes "
    "where both differences of what is explained lie above zero with their intervals."
)


def screen(
    plan: Experiment, results: list[Result], out: Path, kept: Path | None = None
) -> list[Path]:
    """A table for each game whose baseline has finished, and how often each variant passes."""
    found = {
        game: screened
        for game in dict.fromkeys(result.game for result in results)
        if (screened := screened_in(plan, game, results, kept or out))
    }
    parts = [heading(plan, results)]
    if found:
        parts += [passed(found)]
    for game, one in found.items():
        about = f"{game}: {one.frames:,} frames of {one.levels} {plan.levels} levels"
        notes = "\n".join(f"- {note}" for note in one.notes)
        parts += [
            f"## {about}; the expert is {plan.experts[game]}",
            by_variant(one.lines, [r for r in results if r.game == game]),
            notes,
        ]
    parts += [MEANING.format(levels=plan.levels, baseline=plan.baseline), *unreadable(results)]
    values = {
        "experiment": plan.name,
        "scale": plan.scale,
        "baseline": plan.baseline,
        "levels": plan.levels,
        "games": {game: one._asdict() for game, one in found.items()},
        "runs": results,
    }
    return write_page(out, [part for part in parts if part], values)


def screened_in(
    plan: Experiment, game: str, results: list[Result], kept: Path
) -> "Screened | None":
    """The finished runs of a game; none where the baseline has not finished with any seed."""
    from crosstraj.analysis.probes.variants import Entry
    from crosstraj.analysis.probes.variants import screen as judge

    runs = [r for r in results if r.finished and r.game == game]
    # The untrained encoder of a seed is taken from the first run, so from the baseline.
    runs.sort(key=lambda r: r.variant != plan.baseline)
    if not runs or runs[0].variant != plan.baseline:
        return None
    print(f"probing {len(runs)} runs of {game}", file=sys.stderr)
    entries = [Entry(r.variant, r.seed, Path(r.directory), r.frames) for r in runs]
    make_directory(kept)
    file = kept / f"probes-{file_name(game)}.safetensors"
    return judge(entries, plan.baseline, named(Path(plan.experts[game])), plan.levels, file)


def by_variant(lines: "list[Line]", results: list[Result]) -> str:
    """One row per variant, and random play; returns, seed by seed, decide nothing here."""
    head = ["variant", "seeds", "explained", "over untrained", "over baseline"]
    head += ["AUC", "over untrained", "over baseline", f"{results[0].levels} return"]
    scores = {(r.variant, r.seed): f"{r.score:.2f}" for r in results if math.isfinite(r.score)}
    rows = [
        [
            line.variant,
            str(len(line.seeds)),
            with_interval(line.share, ".3f"),
            *(
                with_interval(one, "+.3f")
                for one in (line.share_over_untrained, line.share_over_baseline)
            ),
            with_interval(line.auc, ".3f"),
            *(
                with_interval(one, "+.3f")
                for one in (line.auc_over_untrained, line.auc_over_baseline)
            ),
            ", ".join(scores.get((line.variant, seed), "") for seed in line.seeds).strip(", "),
        ]
        for line in lines
    ]
    if math.isfinite(chance := results[0].chance):
        rows.append([RANDOM_PLAY, *["-"] * (len(head) - 2), f"{chance:.2f}"])
    return marked_table(head, rows)


def passed(found: "dict[str, Screened]") -> str:
    """In how many games a variant explains more than both encoders it is held against."""
    variants = dict.fromkeys(line.variant for one in found.values() for line in one.lines[1:])
    rows = []
    for variant in variants:
        lines = {
            game: line
            for game, one in found.items()
            for line in one.lines
            if line.variant == variant
        }
        names = [game for game, line in lines.items() if line.passes]
        rows.append([variant, f"{len(names)} of {len(lines)}", ", ".join(names)])
    return marked_table(["variant", "passes in", "games"], rows)
