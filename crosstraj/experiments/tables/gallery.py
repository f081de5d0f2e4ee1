"""The tables `samples`, `maps`, `course` and `temperature`: pictures of what runs have learnt.

They read the weights of finished runs, which play a little: it takes a minute or so for each run.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from crosstraj.experiments.plan import Experiment
from crosstraj.experiments.tables.page import heading, unreadable, write_page
from crosstraj.experiments.tables.results import Result
from crosstraj.report.cells import rounded
from crosstraj.report.document import marked_table
from crosstraj.report.statistics import finite_spread

Found = TypeVar("Found")
SAMPLES = (
    "Random states of the clusters with the most views of the frozen policy after training. "
    "Half of the views are on unseen levels. `levels`: how many different ones a cluster's are of."
)
MAPS = (
    "Every snapshot plays, and what it meets is clustered and mapped by its own weights. "
    "Silhouette: scikit-learn, cosine, on all views of the map; 1 is the best, 0 is no structure."
)
COURSE = (
    "L_clust and L_pred are the last ones recorded. `alike`: mean cosine between the centres of "
    "the clusters of consecutive views of a trajectory, at the last snapshot, on views that the "
    "trained policy has met; `in any order`: its value for the same clusters in any order."
)


def looked_at(results: list[Result], look: Callable[[Path, str], Found]) -> list[Found]:
    """What is found in each finished run; says how far it is."""
    found, finished = [], [r for r in results if r.finished]
    for number, result in enumerate(finished, 1):
        print(f"looking at {number} of {len(finished)}: {result.directory}", file=sys.stderr)
        found.append(look(Path(result.directory), label(result, results)))
    return found


def label(result: Result, results: list[Result]) -> str:
    """The variant; and the seed where there are several."""
    several = len({other.seed for other in results}) > 1
    return f"{result.variant}, seed {result.seed}" if several else result.variant


def written(
    plan: Experiment, results: list[Result], out: Path, table: str, values: object, note: str
) -> list[Path]:
    parts = [heading(plan, results), table, note, *unreadable(results)]
    whole = {"experiment": plan.name, "scale": plan.scale, "rows": values, "runs": results}
    return write_page(out, parts, whole)


def samples(plan: Experiment, results: list[Result], out: Path) -> list[Path]:
    from crosstraj.analysis import gallery

    found = [one for run in looked_at(results, gallery.samples) for one in run]
    lines = [
        [one.game, one.variant, str(one.cluster), str(one.views), str(one.levels)]
        for one in sorted(found, key=lambda one: (one.game, one.variant, one.rank))
    ]
    table = marked_table(["game", "variant", "cluster", "views", "levels"], lines)
    values = [{k: v for k, v in one._asdict().items() if k != "states"} for one in found]
    files = written(plan, results, out, table, values, SAMPLES)
    return [*files, *picture(out, gallery.draw_samples(found) if found else None)]


def maps(plan: Experiment, results: list[Result], out: Path) -> list[Path]:
    from crosstraj.analysis import gallery

    found = [one for run in looked_at(results, gallery.maps) for one in run]
    used = {id(one): len(set(one.cluster[one.cluster >= 0].tolist())) for one in found}
    lines = [
        [one.variant, f"{one.frames:,}", last_of([(0, one.silhouette)]), str(used[id(one)])]
        for one in found
    ]
    table = marked_table(["variant", "frames", "silhouette", "clusters used"], lines)
    values = [
        {"variant": one.variant, "frames": one.frames, "silhouette": one.silhouette}
        for one in found
    ]
    files = written(plan, results, out, table, values, MAPS)
    return [*files, *picture(out, gallery.draw_maps(found) if found else None)]


def course(plan: Experiment, results: list[Result], out: Path) -> list[Path]:
    from crosstraj.analysis import gallery

    found = looked_at(results, gallery.course)
    lines = [
        [one.variant, *map(last_of, (one.cluster, one.predict, one.alike, one.chance))]
        for one in found
    ]
    table = marked_table(["variant", "L_clust", "L_pred", "alike", "in any order"], lines)
    files = written(plan, results, out, table, [one._asdict() for one in found], COURSE)
    return [*files, *picture(out, gallery.draw_courses(found) if found else None)]


def last_of(points: Sequence[tuple[float, float]]) -> str:
    """The newest value of a figure."""
    return rounded(finite_spread(value for _, value in points[-1:]))


def temperature(plan: Experiment, results: list[Result], out: Path) -> list[Path]:
    """A comparison and a figure for each preset: lines of two would look like one."""
    from crosstraj.analysis import temperatures

    found = looked_at(results, lambda run, _: temperatures.followed(run))
    files, parts = [], []
    for name in dict.fromkeys(one.config.preset for one in found):
        same = [one for one in found if one.config.preset == name]
        drawn = f"figure-{name}.png"
        parts.append(f"Preset `{name}`\n\n{temperatures.compare(same, drawn, level=2)}")
        files += picture(out, temperatures.draw(same), drawn)
    correlations = [
        {"run": str(one.run), "temperature": temperatures.temperature(one), "moments": one.moments}
        for one in found
    ]
    return [
        *written(plan, results, out, "\n".join(parts), correlations, "Games are kept apart."),
        *files,
    ]


def picture(out: Path, data: bytes | None, name: str = "figure.png") -> list[Path]:
    """The figure, where there is something to show."""
    if data is None:
        return []
    (out / name).write_bytes(data)
    return [out / name]
