"""`crosstraj report`: from run directories to one page with its tables and figures.

    index.html, report.md      the same page twice
    tables.tex                 its tables for a paper
    levels.csv                 mean return on every level
    figures/*.png

All names of files are fixed: nothing in a run directory can choose a path.
"""

import csv
import io
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.progress import track

from crosstraj.disk import make_directory, write_whole
from crosstraj.errors import BadInput
from crosstraj.learning.display import screen
from crosstraj.report import comparison_plots, drawing
from crosstraj.report.cells import RANDOM_PLAY
from crosstraj.report.comparison import RANGES, Comparison, compare, named
from crosstraj.report.curves import curves_figure
from crosstraj.report.document import (
    Block,
    Heading,
    Items,
    Picture,
    Text,
    html,
    latex,
    markdown,
    plain,
)
from crosstraj.report.reading import RunData, find_runs, read_run
from crosstraj.report.sections import aggregates, codes, levels, returns, split
from crosstraj.report.sections.aggregates import Aggregates
from crosstraj.report.sections.headline import headline, one_run
from crosstraj.report.sections.later import later_returns
from crosstraj.report.statistics import CONFIDENCE, RESAMPLES, profile

Files = dict[str, bytes]  # by their place below the output directory
LEVEL_COLUMNS = ("task", "budget", "variant", "game", "split", "level", "return")


def write_report(paths: Iterable[Path], out: Path) -> Path:
    """Report on the runs at or below these paths; returns the page."""
    runs, unreadable = _read(find_runs(paths))
    if not runs:
        raise BadInput(f"no run can be read: {'; '.join(unreadable)}")
    title, blocks, files = build(runs, unreadable)
    files["index.html"] = html(title, blocks).encode()
    files["report.md"] = markdown(blocks).encode()
    files["tables.tex"] = latex(blocks).encode()
    try:
        make_directory(out / "figures")
        for name, data in files.items():
            write_whole(out / name, data)
    except OSError as error:
        raise BadInput(f"{out} cannot be written: {error.strerror or error}") from error
    return out / "index.html"


def _read(paths: Sequence[Path]) -> tuple[list[RunData], list[str]]:
    runs, unreadable = [], []
    silent = not sys.stderr.isatty()
    for path in track(paths, "reading runs", console=screen(stderr=True), disable=silent):
        try:
            runs.append(read_run(path))
        except BadInput as error:
            unreadable.append(f"unreadable: {error}")
    return runs, unreadable


def build(runs: Sequence[RunData], unreadable: Sequence[str]) -> tuple[str, list[Block], Files]:
    """Title, blocks and the files that they show."""
    comparisons = compare(runs)
    one = runs[0].path.resolve().name if len(runs) == 1 else f"{len(runs)} runs"
    title = f"Report on {plain(one)}"
    blocks: list[Block] = [Heading(title, 1)]
    files: Files = {}
    for index, comparison in enumerate(comparisons, 1):
        found = aggregates.aggregates(comparison)
        heading, opening = Heading(comparison.title), _opening(comparison, index, found, files)
        if index == 1:  # its result comes before everything else
            blocks += [*opening, *_notes(comparisons, unreadable), heading]
        else:
            blocks += [heading, *opening]
        blocks += _details(comparison, index, found, files)
    if len(runs) == 1:
        blocks += _health(runs[0], one, files)
    blocks += [Heading("How to read this"), Text(METHOD)]
    rows = [(c.title, *row) for c in comparisons for row in levels.level_rows(c)]
    files["levels.csv"] = _csv([LEVEL_COLUMNS, *rows])
    return title, blocks, files


def _notes(comparisons: Sequence[Comparison], unreadable: Sequence[str]) -> list[Block]:
    """What a reader must know before comparing: what is in no table, and what is kept apart."""
    blocks: list[Block] = []
    if unreadable:
        blocks += [Text("Directories that could not be read, and are in no table:")]
        blocks += [Items(unreadable)]
    if len(comparisons) > 1:
        groups = [f"{c.title}: {'; '.join(v.label for v in c.variants)}" for c in comparisons]
        blocks += [Text(MIXED), Items(groups)]
    return blocks


def _health(run: RunData, name: str, files: Files) -> list[Block]:
    """Everything but its returns, which are at the top."""
    figure = curves_figure(run.reached.rows, name, returns=False)
    if figure is None:
        return []
    caption = "Health over training. A pale band is where a figure is healthy."
    shown = _picture(files, "health", figure, caption)._replace(broad=True)
    return [Heading("The health of the run", 3), shown]


METHOD = (
    "Returns are raw, of the frozen policy, on the levels it trained on (seen) and on levels it "
    "has never seen (unseen), at the end of each run's budget; runs end with the rollout that "
    f"reaches it. Scores are {RANGES}. Intervals are {100 * CONFIDENCE:.0f} % percentile "
    f"intervals of a bootstrap over seeds, stratified by game ({RESAMPLES:,} resamples, rliable); "
    "one seed gives none. Standard deviations are of the sample of seeds."
)
MIXED = (
    "The runs differ in budget or task. They are compared in groups, and nothing is averaged or "
    "compared across these; the result above is that of the first:"
)
HOLLOW = "a hollow point has none"
NAMED = "Not in the tables, or to be known about them:"


def _opening(
    comparison: Comparison, index: int, found: Aggregates | None, files: Files
) -> list[Block]:
    """The result in a sentence, and its pictures."""

    def picture(name: str, figure: Figure, caption: str) -> Picture:
        return _picture(files, f"{name}-{index}", figure, caption)

    said = headline(comparison, found)
    if comparison.finished_runs == comparison.all_runs == 1:
        return [*said, picture("curves", comparison_plots.one_run(comparison), ALONE)]
    several = comparison.finished_runs > 1  # or there is nothing to aggregate
    return [*said, *_pictures(comparison, found if several else None, picture)]


def _details(
    comparison: Comparison, index: int, found: Aggregates | None, files: Files
) -> list[Block]:
    blocks: list[Block] = []
    if comparison.finished_runs == 1:
        blocks += [*one_run(comparison), *later_returns(comparison)]
    else:
        blocks += _tables(comparison, found)
    blocks += codes.code_blocks(comparison)
    if said := named(comparison):
        blocks += [Text(NAMED), Items(said)]
    if table := split.split_blocks(comparison):
        blocks += [Heading("Split over joint updates", 3), *table]
    if not levels.recorded(comparison):
        return [*blocks, Text(levels.NOT_RECORDED)]
    blocks.append(Heading("Levels", 3))
    won = levels.won_levels(comparison)
    blocks += levels.level_blocks(comparison, won)
    if held_out := [(pair, one) for pair, one in won if one.split == comparison.levels]:
        caption = f"{comparison.levels.capitalize()} levels won, tied and lost."
        figure = comparison_plots.levels(held_out)
        blocks.append(_picture(files, f"levels-{index}", figure, caption))
    return [*blocks, *levels.audit_blocks(comparison)]


CURVES = ": mean and one standard deviation over seeds; dotted: partial runs"
TRAINING = "; faint lines: returns while training, a running mean"
ALONE = "Return over training; the faint line is the running mean of the episodes it trained on."


def _tables(comparison: Comparison, found: Aggregates | None) -> list[Block]:
    blocks: list[Block] = []
    if comparison.judged:
        blocks.append(Heading("Over games and seeds", 3))
        blocks += aggregates.aggregate_blocks(comparison, found)
    blocks += [Heading("What was run", 3), *returns.variants(comparison)]
    if comparison.judged:
        blocks += [Heading("Returns", 3), *returns.returns(comparison)]
        blocks += later_returns(comparison)
        blocks += [*returns.seen_and_gap(comparison), *returns.normalised_returns(comparison)]
    return blocks


def _pictures(
    comparison: Comparison,
    found: Aggregates | None,
    picture: Callable[[str, Figure, str], Picture],
) -> list[Block]:
    """What the headline is about comes first: the aggregates, where there are any."""
    blocks: list[Block] = []
    if found is not None:
        figure = comparison_plots.intervals(found.with_random)
        caption = f"Aggregates and their intervals; {HOLLOW}."
        blocks.append(picture("aggregates", figure, caption)._replace(broad=True))
    for name, more in ((comparison.levels, ""), ("seen", TRAINING)):
        figure = comparison_plots.learning_curves(comparison, name)
        caption = f"Return on {name} levels over training{CURVES}{more}."
        shown = picture(f"curves-{name}", figure, caption)
        blocks.append(shown._replace(broad=len(figure.axes) > 1))
    if found is None:
        return blocks
    if found.pairs:
        figure = comparison_plots.improvements(found.pairs)
        blocks.append(picture("improvement", figure, f"Probability of improvement; {HOLLOW}."))
    by_label = found.scores | ({RANDOM_PLAY: found.random} if found.random else {})
    scores = [score for rows in by_label.values() for row in rows.values() for score in row]
    finite = [score for score in scores if np.isfinite(score)]
    if finite:
        thresholds = np.linspace(min(0.0, *finite) - 0.02, max(finite) + 0.02, 101).tolist()
        profiles = {label: profile(rows, thresholds) for label, rows in by_label.items()}
        figure = comparison_plots.profiles(thresholds, profiles)
        blocks.append(picture("profiles", figure, "Performance profiles, with their intervals."))
    return blocks


def _picture(files: Files, name: str, figure: Figure, caption: str) -> Picture:
    place = f"figures/{name}.png"
    files[place] = drawing.png(figure)
    return Picture(place, caption)


def _csv(rows: Iterable[Sequence[str]]) -> bytes:
    """Text that a spreadsheet would take for a formula gets a quote in front."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow([f"'{cell}" if _is_formula(cell) else cell for cell in row])
    return text.getvalue().encode()


def _is_formula(cell: str) -> bool:
    if cell[:1] not in ("=", "+", "-", "@", "\t", "\r"):
        return False
    try:
        float(cell)
    except ValueError:
        return True
    return False  # a number below zero
