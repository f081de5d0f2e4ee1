"""The tables `samples`, `maps`, `course` and `temperature`: pictures of what runs have learnt.

They read the weights of finished runs, which play a little: it takes a minute or so for each run.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from crosstraj.experiments.file import Experiment
from crosstraj.experiments.tables.results import Result, spread, write_json
from crosstraj.experiments.tables.returns import heading
from crosstraj.report.cells import row

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
    plan: Experiment, results: list[Result], out: Path, table: list[str], values: object, note: str
) -> list[Path]:
    """table.md and table.json."""
    text = [heading(plan, results), "\n".join(table), note]
    text += [f"- {r.directory} could not be read: {r.trouble}" for r in results if r.trouble]
    (out / "table.md").write_text("\n\n".join(text) + "\n")
    whole = {"experiment": plan.name, "scale": plan.scale, "rows": values, "runs": results}
    return [out / "table.md", write_json(out / "table.json", whole)]


def head(*names: str) -> list[str]:
    return [row(*names), "|---" * len(names) + "|"]


def samples(plan: Experiment, results: list[Result], out: Path) -> list[Path]:
    from crosstraj.analysis import gallery

    found = [one for run in looked_at(results, gallery.samples) for one in run]
    table = head("game", "variant", "cluster", "views", "levels")
    table += [
        row(one.game, one.variant, str(one.cluster), str(one.views), str(one.levels))
        for one in sorted(found, key=lambda one: (one.game, one.variant, one.rank))
    ]
    values = [{k: v for k, v in one._asdict().items() if k != "states"} for one in found]
    files = written(plan, results, out, table, values, SAMPLES)
    return [*files, *picture(out, gallery.draw_samples(found) if found else None)]


def maps(plan: Experiment, results: list[Result], out: Path) -> list[Path]:
    from crosstraj.analysis import gallery

    found = [one for run in looked_at(results, gallery.maps) for one in run]
    table = head("variant", "frames", "silhouette", "clusters used")
    used = {id(one): len(set(one.cluster[one.cluster >= 0].tolist())) for one in found}
    table += [
        row(one.variant, f"{one.frames:,}", str(spread([one.silhouette])), str(used[id(one)]))
        for one in found
    ]
    values = [
        {"variant": one.variant, "frames": one.frames, "silhouette": one.silhouette}
        for one in found
    ]
    files = written(plan, results, out, table, values, MAPS)
    return [*files, *picture(out, gallery.draw_maps(found) if found else None)]


def course(plan: Experiment, results: list[Result], out: Path) -> list[Path]:
    from crosstraj.analysis import gallery

    found = looked_at(results, gallery.course)
    table = head("variant", "L_clust", "L_pred", "alike", "in any order")
    for one in found:
        last = [points[-1:] for points in (one.cluster, one.predict, one.alike, one.chance)]
        table.append(row(one.variant, *(str(spread(v for _, v in points)) for points in last)))
    files = written(plan, results, out, table, [one._asdict() for one in found], COURSE)
    return [*files, *picture(out, gallery.draw_courses(found) if found else None)]


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
    return [*written(plan, results, out, parts, correlations, "Games are kept apart."), *files]


def picture(out: Path, data: bytes | None, name: str = "figure.png") -> list[Path]:
    """The figure, where there is something to show."""
    if data is None:
        return []
    (out / name).write_bytes(data)
    return [out / name]
