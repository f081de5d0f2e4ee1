"""`crosstraj analyse`: one run as table, figures and a summary, from any checkpoint or snapshot."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from crosstraj.analysis import cluster_levels, measures, plots
from crosstraj.analysis.embed import SHARE, Clusters, Embedding, Lens
from crosstraj.analysis.layout import tsne
from crosstraj.analysis.output import Output
from crosstraj.analysis.play import Views, collect, examiner_for
from crosstraj.analysis.result import Analysis, Choices, Moment, Subject
from crosstraj.analysis.summary import summary
from crosstraj.analysis.table import write_tables
from crosstraj.config.values import Config
from crosstraj.envs import image_and_actions
from crosstraj.envs.showing import action_names
from crosstraj.errors import BadInput
from crosstraj.learning.display import stage
from crosstraj.learning.load import checkpoints_by_frames, load
from crosstraj.nn.native import keep_memory
from crosstraj.runs.log import read_rows

SNAPSHOT_VIEWS = SHARE  # of the fixed set, re-encoded by every snapshot: one Sinkhorn each


def prepare(run: Path, choices: Choices) -> Subject:
    """Read a run and let its policy play."""
    lens = Lens(run, load(run, choices.step), choices.kmeans)
    config = lens.trained.configuration
    keep_memory()
    torch.set_num_threads(config.threads)
    choices.check(lens.keypoints)
    examiner = examiner_for(config, choices.views // 2, choices.span or 2)
    agent, frames = lens.trained.agent, lens.trained.frames
    if not all(weight.isfinite().all() for weight in agent.state_dict().values()):
        raise BadInput(
            f"the weights of {run} at {frames} frames are not finite, so its policy cannot act; "
            f"give --step with an earlier snapshot: {_listed(snapshot_steps(run, frames))}"
        )
    span = choices.span or lens.keypoints
    with stage("playing seen and unseen levels", choices.views) as shown:
        views = collect(
            examiner,
            agent,
            lens.trained.objective,
            choices.views,
            keypoints=lens.keypoints,
            span=span,
            shown=shown,
        )
    names = action_names(config.env, image_and_actions(examiner.pool("seen").envs)[1])
    snapshots = [step for step in snapshot_steps(run, frames) if step != frames]
    if agent.memory:
        snapshots = []  # what it remembers in a view, other weights would not remember
    rows = [row for row in read_rows(run / "metrics.jsonl") if isinstance(row, dict)]
    notes = remarks(config, frames, choices.views, views, rows)
    return Subject(run, config, choices, lens, frames, views, span, names, snapshots, rows, notes)


def remarks(
    config: Config, frames: int, asked: int, views: Views, rows: list[dict[str, Any]]
) -> list[str]:
    """What is missing or partial, in words."""
    notes = []
    if frames < config.frames:
        notes.append(f"partial: {frames:,} of {config.frames:,} frames were trained")
    if config.memory != "none":
        notes.append(
            f"memory={config.memory}: views hold what these weights remembered before each frame, "
            "so no other snapshot is shown"
        )
    if not rows:
        notes.append("metrics.jsonl has no rows: there are no learning curves")
    if len(views) < asked:
        notes.append(f"only {len(views)} of {asked} views: most episodes were shorter than a view")
    if unfinished := int((views.length < 0).sum()):
        notes.append(f"{unfinished} views are of episodes whose end was not seen: no return-to-go")
    return notes


def snapshot_steps(run: Path, most: int) -> list[int]:
    """The frame counts of a run's snapshots, ascending, none above `most`."""
    return sorted(step for step in checkpoints_by_frames(run / "snapshots") if step <= most)


def _listed(steps: list[int]) -> str:
    return ", ".join(map(str, steps)) or "there is none"


def moment(frames: int, embedding: Embedding) -> Moment:
    clusters = embedding.clusters
    if clusters is None:
        return Moment(frames, measures.NAN, measures.NAN, 0, embedding.health)
    return Moment(
        frames,
        measures.silhouette(embedding.vectors, clusters.cluster),
        measures.agreement(clusters.cluster, clusters.raw),
        len(np.unique(clusters.cluster[clusters.cluster >= 0])),
        embedding.health,
    )


def over_training(subject: Subject) -> list[Moment]:
    """One fixed part of the views through every snapshot, and through the weights that played.

    A snapshot that cannot be read is named and left out.
    """
    views = subject.views
    part = views.take(
        np.linspace(0, len(views) - 1, min(SNAPSHOT_VIEWS, len(views))).round().astype(np.int64)
    )
    moments = []
    with stage("re-encoding by snapshots", len(subject.steps) * part.action.size) as shown:
        for frames in subject.loaded():
            moments.append(moment(frames, subject.lens.embed(part, shown)))
    return moments


def look(subject: Subject) -> Analysis:
    """All measures; nothing is written."""
    views = subject.views
    with stage("encoding views", views.action.size) as shown:
        embedding = subject.lens.embed(views, shown)
    moments = over_training(subject)
    with stage("map (t-SNE)"):
        place = tsne(embedding.vectors)
    broken = int((~np.isfinite(embedding.vectors).all(1)).sum())
    if broken:
        subject.notes.append(f"{broken} views have vectors that are not finite: no cluster")
    found: dict[str, Any] = {
        "frames": subject.frames,
        "views": len(views),
        "trajectories": len(np.unique(views.trajectory)),
        "levels": len(np.unique(views.level[views.level >= 0])),  # -1: an environment without
        "unfinished_views": int((views.length < 0).sum()),
        "nonfinite_vectors": broken,
        **embedding.health,
    }
    result = Analysis(subject, embedding, place, moments, None, None, None, None, found)
    if embedding.clusters is None:
        return result
    with stage("measures"):
        return with_clusters(result, embedding.clusters)


def with_clusters(result: Analysis, clusters: Clusters) -> Analysis:
    """The same with everything that can be said of its clusters."""
    views, total = result.subject.views, len(clusters.centres)
    along = clusters.cluster, views.trajectory, views.window
    joined = measures.connectivity(clusters.centres, *along)
    passing = measures.transitions(*along, total)
    sizes = measures.usage(clusters.cluster, views.unseen, total)
    group = cluster_levels.group_of(views)[1]
    spanned = cluster_levels.span(clusters.cluster, group, total)
    found = result.figures | {
        "clusters": total,
        "clusters_used": int((sizes.sum(0) > 0).sum()),
        "largest_cluster": int(sizes.sum(0).max()),
        "agreement": measures.agreement(clusters.cluster, clusters.raw),
        "code_entropy": _mean(clusters.entropy),
        "silhouette": measures.silhouette(result.embedding.vectors, clusters.cluster),
        "connectivity": joined.mean,
        "connectivity_chance": joined.chance,
        "information_level": measures.information(clusters.cluster, views.level),
        "information_action": measures.information(clusters.cluster, views.action[:, 0]),
        **cluster_levels.figures(clusters.cluster, group, spanned),
        **measures.transition_figures(passing),
        **measures.usage_figures(clusters.cluster, views.unseen, views.trajectory, total),
    }
    other = result.embedding.by_stretch
    if other is not None:
        found["centring_agreement"] = measures.agreement(clusters.cluster, other)
        found["centring_agreement_chance"] = measures.agreement_chance(clusters.cluster, other)
    return result._replace(
        connectivity=joined, transitions=passing, counts=sizes, span=spanned, figures=found
    )


def _mean(values: NDArray[Any]) -> float:
    kept = values[np.isfinite(values)]
    return float(kept.mean()) if len(kept) else measures.NAN


def analyse(run: Path, choices: Choices, output: Output) -> tuple[Analysis, list[Path]]:
    """Analyse a run and write everything; the files, the summary first."""
    subject = prepare(run, choices)
    result = look(subject)
    with stage("table and figures"):
        written = write_tables(result, output)
        pictures = plots.draw(result)
        written += [output.write(name, data) for name, data in pictures.items()]
        text = summary(result, list(pictures))
        return result, [output.write("summary.md", text.encode()), *written]
