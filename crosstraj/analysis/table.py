"""Tables as Parquet: readable by pandas, Polars, DuckDB and R, typed, and half the size of CSV."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from crosstraj.analysis.embed import Embedding
from crosstraj.analysis.layout import Coordinates
from crosstraj.analysis.output import Output
from crosstraj.analysis.pictures import png, strip
from crosstraj.analysis.play import Views
from crosstraj.analysis.result import Analysis
from crosstraj.envs.showing import newest_image
from crosstraj.report.document import as_json


def views_table(
    views: Views, embedding: Embedding, place: Coordinates, frame_stack: int, facts: dict[str, str]
) -> pa.Table:
    """One row per view; what has no clusters has null there. `frames` is a PNG, side by side."""
    rows, clusters = len(views), embedding.clusters
    nobody = np.full(rows, -1)
    cluster = nobody if clusters is None else clusters.cluster
    raw = nobody if clusters is None else clusters.raw
    entropy = np.full(rows, np.nan, np.float32) if clusters is None else clusters.entropy
    columns: dict[str, Any] = {
        "view": pa.array(np.arange(rows)),
        "split": pa.array(np.where(views.unseen, "unseen", "seen")).dictionary_encode(),
        "trajectory": pa.array(views.trajectory),
        "level": pa.array(views.level, mask=views.level < 0),
        "step": pa.array(views.step[:, 0]),
        "episode_length": pa.array(views.length, mask=views.length < 0),
        "action": pa.array(views.action[:, 0]),
        "steps": _lists(views.step),
        "actions": _lists(views.action),
        "value": pa.array(views.value),
        "return_to_go": pa.array(views.return_to_go),
        "cluster": pa.array(cluster, mask=cluster < 0),
        "raw_cluster": pa.array(raw, mask=raw < 0),
        "code_entropy": pa.array(entropy),
        "x": pa.array(place[:, 0]),
        "y": pa.array(place[:, 1]),
        "frames": pa.array(
            [png(strip(newest_image(frames, frame_stack))) for frames in views.frames], pa.binary()
        ),
    }
    return pa.table(columns).replace_schema_metadata(facts)


def _lists(rows: NDArray[np.int64]) -> pa.Array:
    count, length = rows.shape
    return pa.ListArray.from_arrays(
        pa.array(np.arange(count + 1, dtype=np.int32) * length), pa.array(rows.flatten())
    )


def clusters_table(
    counts: NDArray[np.int64], stay: NDArray[Any], figures: dict[str, Any]
) -> pa.Table:
    """One row per occupied cluster."""
    occupied = np.flatnonzero(counts.sum(0))
    columns = {
        "cluster": occupied,
        "views": counts.sum(0)[occupied],
        "seen": counts[0][occupied],
        "unseen": counts[1][occupied],
        "stay": stay[occupied],
    }
    return pa.table(columns | {name: column[occupied] for name, column in figures.items()})


def transitions_table(counts: Any) -> pa.Table:
    """One row per pair of clusters that follow each other, with how often and how likely."""
    sparse = counts.tocoo()
    first, second = sparse.coords
    return pa.table(
        {
            "from": first.astype(np.int64),
            "to": second.astype(np.int64),
            "count": sparse.data,
            "probability": sparse.data / counts.sum(1)[first].clip(1),
        }
    )


def as_parquet(table: pa.Table) -> memoryview:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return memoryview(sink.getvalue())


def write_tables(result: Analysis, output: Output) -> list[Path]:
    """Every table of an analysis, and its numbers."""
    config, views = result.subject.config, result.subject.views
    facts = {"run": str(result.subject.run.resolve().name), "frames": str(result.subject.frames)}
    rows = views_table(views, result.embedding, result.place, config.frame_stack, facts)
    figures_of = {**result.figures, "moments": result.moments}
    written = [
        output.write("views.parquet", as_parquet(rows)),
        output.write("measures.json", as_json(figures_of).encode()),
    ]
    clusters, span = result.embedding.clusters, result.span
    if clusters is None or span is None or result.counts is None or result.transitions is None:
        return written
    left, sizes = result.transitions.sum(1), result.counts.sum(0)
    stay = result.transitions.diagonal() / np.where(left, left, np.nan)
    total, kept = len(clusters.centres), clusters.cluster >= 0

    def mean_of(column: NDArray[Any]) -> NDArray[Any]:
        sums = np.bincount(clusters.cluster[kept], column[kept], total)
        return sums / np.where(sizes, sizes, np.nan)

    columns = {
        "levels": span.levels,
        "levels_permuted": span.permuted,
        "mean_value": mean_of(views.value),
        "mean_step": mean_of(views.step[:, 0]),
        "mean_code_entropy": mean_of(clusters.entropy),
    }
    rows = clusters_table(result.counts, stay, columns)
    passing = transitions_table(result.transitions)
    return [
        *written,
        output.write("clusters.parquet", as_parquet(rows)),
        output.write("transitions.parquet", as_parquet(passing)),
    ]
