"""`crosstraj explore`: one HTML page with everything in it, opened from disk without a network.

Plotly draws it: maintained, with hover, click, zoom and touch of its own, and one file of
JavaScript that can be put into the page. The page's own part is page.js. Everything from a run
enters as JSON in which no character can end the script element, and the page shows it as text; a
content security policy lets nothing run but the two scripts, and nothing be fetched.
"""

import base64
import hashlib
import html
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from plotly.offline import get_plotlyjs

from crosstraj.analysis.canvas import COLOURS
from crosstraj.analysis.cluster_levels import group_of, span
from crosstraj.analysis.embed import Clusters
from crosstraj.analysis.layout import Coordinates, tsne
from crosstraj.analysis.output import Output, run_name
from crosstraj.analysis.pictures import COLUMNS, PER_SHEET, sheets
from crosstraj.analysis.result import Choices, Subject
from crosstraj.analysis.study import moment, prepare
from crosstraj.envs.showing import newest_image
from crosstraj.errors import BadInput
from crosstraj.health.glossary import GLOSSARY, SCALES, Range, shorts
from crosstraj.learning.display import stage
from crosstraj.nn import ops
from crosstraj.report.curves import ABOUT_LEVEL, PANELS, PREDICTORS, chance_of
from crosstraj.runs.log import series

MOST_VIEWS = 5000  # points that a browser redraws without a pause
PAGE_BYTES = 14_500_000  # frames get what the rest leaves of it
NEIGHBOURS = 3
PARTS = Path(__file__).parent / "page"

CURVES = {  # title -> figure of a row -> name of its line
    "return (raw)": shorts("train_return", "seen_return", "unseen_return", "validation_return"),
    **{title: shorts(*dict(PANELS)[title]) for title in (ABOUT_LEVEL, PREDICTORS)},
    **{
        GLOSSARY[name].label: {name: GLOSSARY[name].short}
        for name in ("levels_per_cluster", "cluster", "predict", "feature_rank")
    },
}
CHANCE = "random play"


def explore(run: Path, choices: Choices, output: Output, name: str) -> Path:
    """Write the page of a run."""
    if choices.views > MOST_VIEWS:
        raise BadInput(
            f"views={choices.views}: a page holds at most {MOST_VIEWS}; `analyse` takes more"
        )
    subject = prepare(run, choices)
    return output.write(name, content_page(subject, snapshots(subject)).encode())


def content_page(subject: Subject, moments: list[dict[str, Any]]) -> str:
    """The page of a run that has been prepared, and seen through its snapshots."""
    with stage("page"):
        return page(content(subject, moments), subject)


def snapshots(subject: Subject) -> list[dict[str, Any]]:
    """The fixed set through every snapshot; each map starts from the one before."""
    moments: list[dict[str, Any]] = []
    place: Coordinates | None = None
    views = subject.views
    with stage("snapshots: encode and map", len(subject.steps) * views.action.size) as shown:
        for frames in subject.loaded():
            embedding = subject.lens.embed(views, shown)
            place = tsne(embedding.vectors, place)
            clusters, figures = embedding.clusters, moment(frames, embedding)
            moments.append(
                {
                    "frames": frames,
                    "x": rounded(place[:, 0]),
                    "y": rounded(place[:, 1]),
                    "cluster": None if clusters is None else clusters.cluster.tolist(),
                    "neighbours": {} if clusters is None else neighbours(clusters),
                    "levels": {} if clusters is None else spanned(clusters, group_of(views)[1]),
                    "silhouette": number(figures.silhouette),
                }
            )
    return moments


def neighbours(clusters: Clusters) -> dict[int, list[tuple[int, float | None]]]:
    """For each occupied cluster the nearest occupied ones, with the cosine of their centres."""
    used = np.unique(clusters.cluster[clusters.cluster >= 0])
    if not len(used):
        return {}
    centres = ops.unit(torch.from_numpy(clusters.centres))
    occupied = torch.zeros(len(centres), dtype=torch.bool)
    occupied[torch.from_numpy(used)] = True
    near, exists = ops.neighbour_clusters(centres, occupied, NEIGHBOURS, "nearest")
    cosine = centres @ centres.T
    return {
        int(c): [
            (int(n), number(float(cosine[c, n])))
            for n, real in zip(near[c], exists[c], strict=True)
            if real
        ]
        for c in used
    }


def spanned(clusters: Clusters, group: NDArray[np.int64]) -> dict[int, tuple[int, float | None]]:
    """For each occupied cluster its number of levels, and how many permuted codes would give it."""
    found = span(clusters.cluster, group, len(clusters.centres))
    return {
        int(c): (int(found.levels[c]), number(float(found.permuted[c])))
        for c in np.flatnonzero(found.levels)
    }


def content(subject: Subject, moments: list[dict[str, Any]]) -> dict[str, Any]:
    """Everything that the page shows but the frames, as plain JSON values; NaN is null."""
    config, views = subject.config, subject.views
    group_name, group = group_of(views)
    # None is NaN here: a gap in the line.
    quality = [(m["frames"], math.nan if (s := m["silhouette"]) is None else s) for m in moments]
    curves = [
        (title, {line: series(subject.rows, name) for name, line in lines.items()})
        for title, lines in CURVES.items()
    ]
    chance = chance_of(subject.run)
    ends = [point[0] for points in curves[0][1].values() for point in points]
    if ends and math.isfinite(chance):  # a line of two points
        curves[0][1][CHANCE] = [(min(ends), chance), (max(ends), chance)]
    if moments and moments[0]["cluster"] is not None:
        heading = GLOSSARY["silhouette"].short
        curves.insert(1, (heading, {heading: quality}))
    return {
        "title": run_name(subject.run),
        "subtitle": (
            f"{config.method} on {config.env}, seed {config.seed}, {subject.frames:,} frames; "
            f"{len(views):,} views of {views.action.shape[1]} steps, half from levels never seen"
        ),
        "notes": subject.notes,
        "actions": subject.actions,
        "colours": COLOURS,
        "span": subject.span,
        "groupName": group_name,
        "clustered": bool(moments) and moments[0]["cluster"] is not None,
        "views": {
            "unseen": views.unseen.astype(int).tolist(),
            "trajectory": views.trajectory.tolist(),
            "window": views.window.tolist(),
            "group": group.tolist(),
            "step": views.step.tolist(),
            "length": views.length.tolist(),
            "action": views.action.tolist(),
            "value": rounded(views.value),
            "return": rounded(views.return_to_go),
        },
        "moments": moments,
        "curves": [
            {
                "title": title,
                **drawn(title),
                "lines": [
                    {
                        "name": name,
                        "chance": name == CHANCE,
                        "x": [number(x) for x, _ in points],
                        "y": [number(y) for _, y in points],
                    }
                    for name, points in lines.items()
                    if points
                ],
            }
            for title, lines in curves
            if any(lines.values())
        ],
    }


def drawn(title: str) -> dict[str, Any]:
    """Where the figure of a curve is healthy, and what its axis shows at least; null: no bound."""
    name = next(iter(CURVES.get(title, {})), "")
    healthy = GLOSSARY[name].healthy if name in GLOSSARY else Range()
    return {
        "healthy": [number(end) for end in healthy],
        "least": [number(end) for end in SCALES.get(name, Range())],
        "legend": len(CURVES.get(title, {})) > 1,  # else the title says it
        "zero": title != PREDICTORS,  # there only the distances between lines count
    }


def page(data: dict[str, Any], subject: Subject) -> str:
    """The parts put together. One pass over the template: what is put in is not looked at again."""
    scripts = {
        "plotly": get_plotlyjs().replace("\r\n", "\n").replace("\r", "\n"),
        "script": (PARTS / "page.js").read_text("utf-8"),
    }
    frames = newest_image(subject.views.frames, subject.config.frame_stack)
    left = PAGE_BYTES - len(scripts["plotly"].encode()) - len(safe_json(data))
    packed = sheets(frames, left * 3 // 4)  # base64 adds a third
    data |= {
        "tiles": {
            "perView": packed.per_view,
            "keypoints": subject.views.action.shape[1],
            "width": packed.width,
            "height": packed.height,
            "columns": COLUMNS,
            "perSheet": PER_SHEET,
            "sheets": len(packed.webp),
        }
    }
    sprites = "\n".join(
        f".sheet{number}{{background-image:url(data:image/webp;base64,"
        f"{base64.b64encode(sheet).decode()})}}"
        for number, sheet in enumerate(packed.webp)
    )
    allowed = " ".join(f"'sha256-{_digest(text)}'" for text in scripts.values())
    parts = scripts | {
        "policy": "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src {allowed}",
        "title": html.escape(data["title"]),
        "style": (PARTS / "page.css").read_text("utf-8") + sprites,
        "data": safe_json(data),
    }
    template = (PARTS / "page.html").read_text("utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def safe_json(data: Any) -> str:
    """JSON that cannot end the script element it stands in, nor begin a comment or an entity."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def number(value: float) -> float | None:
    """Null for what is not finite: the page shows it as NaN."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def rounded(values: NDArray[Any]) -> list[float | None]:
    return [round(float(v), 3) if math.isfinite(v) else None for v in values]
