"""The summary of an analysis: every number with what it would be otherwise."""

import math

from crosstraj.analysis.cluster_levels import group_of
from crosstraj.analysis.output import run_name
from crosstraj.analysis.result import Analysis
from crosstraj.health.glossary import CODES, GLOSSARY, shorts
from crosstraj.learning.watch import verdict
from crosstraj.report.cells import number
from crosstraj.report.document import Block, Heading, Items, Picture, Table, Text, markdown
from crosstraj.runs.log import last_figures

CAPTIONS = {
    "map.png": "Map of the views",
    "silhouette.png": "Silhouette over training",
    "losses.png": "L_clust and L_pred over training",
    "clusters.png": "Cluster sizes",
    "connectivity.png": "Temporal connectivity",
    "transitions.png": "Transition graph",
    "states.png": "Sample states",
    "levels.png": "Each of the largest clusters in up to eight different levels: is what they have "
    "in common the situation, or the background?",
    "health.png": "Effective rank and dead features",
}


def summary(result: Analysis, pictures: list[str]) -> str:
    """Markdown, in which whatever a run directory says is text."""
    subject, found = result.subject, result.figures
    config = subject.config
    blocks: list[Block] = [
        Heading(run_name(subject.run), 1),
        Text(
            f"{config.method} (preset {config.preset}) on {config.env}, seed {config.seed}, "
            f"weights after {subject.frames:,} frames. {found['views']:,} views of "
            f"{subject.views.action.shape[1]} steps each, one from every {subject.span} steps of "
            f"{found['trajectories']} trajectories on {found['levels']} levels, half of the views "
            "on levels seen in training; frozen policy, actions "
            f"{'greedy' if config.evaluation.greedy else 'sampled'}."
        ),
        *([Items(subject.notes)] if subject.notes else []),
        Heading("Clusters"),
    ]
    if result.embedding.clusters is None:
        blocks.append(
            Text(
                "None: this method has no prototypes, so its features are analysed. --kmeans K "
                "makes K clusters of them."
            )
        )
    else:
        blocks += [_clusters(result), Heading("Seen against unseen levels"), Text(_usage(found))]
    blocks += [
        Heading("Features"),
        Text(
            f"Effective rank {number(found['feature_rank'], '.1f')}; "
            f"{number(found['dead_features'], '.1%')} of the features are dead (their spread "
            "is below a hundredth of the mean spread)."
        ),
        *_recorded(result),
        Heading("Over training"),
        _over_training(result),
        Heading("Figures"),
        *(Picture(picture, CAPTIONS[picture]) for picture in pictures),
        Text(
            "Rows are in views.parquet (frames as PNG, keypoints side by side), clusters.parquet "
            "and transitions.parquet, numbers in measures.json."
        ),
    ]
    return markdown(blocks)


def _clusters(result: Analysis) -> Table:
    found, kmeans = result.figures, result.subject.choices.kmeans
    how = (
        f"k-means with {kmeans} clusters on features of length one"
        if kmeans
        else "networks in evaluation mode, argmax of Sinkhorn over the views in fixed shares"
    )
    chance = f"the same clusters in any order: {number(found['connectivity_chance'], '.3f')}"
    unordered = f"not knowing this one: {number(found['next_entropy_unordered'], '.2f')}"
    equal = f"equal: {found['views'] / found['clusters']:.1f}"
    shown = {  # each beside what it would be otherwise
        "clusters_used": (f"{found['clusters_used']} of {found['clusters']}", ""),
        "largest_cluster": (f"{found['largest_cluster']} views", equal),
    }
    if not kmeans:
        uniform = f"uniform: {math.log(found['clusters']):.2f}"
        shown["agreement"] = (number(found["agreement"], ".1%"), "")
        shown["code_entropy"] = (number(found["code_entropy"], ".2f"), uniform)
    shown |= {
        "silhouette": (number(found["silhouette"], ".3f"), "no clusters: 0; best: 1"),
        "connectivity": (number(found["connectivity"], ".3f"), chance),
        "stay": (number(found["stay"], ".1%"), ""),
        "next_entropy": (number(found["next_entropy"], ".2f"), unordered),
        "information_action": (number(found["information_action"], ".3f"), "chance: 0; all: 1"),
        "information_level": (number(found["information_level"], ".3f"), "chance: 0; all: 1"),
    }
    rows = [(GLOSSARY[name].short, *cells) for name, cells in shown.items()]
    rows += _levels(result)
    if "centring_agreement" in found:
        stretch, chance = result.subject.lens.stretch, found["centring_agreement_chance"]
        rows.append(
            (
                f"same cluster if centred by {stretch} steps, as in training, not by trajectory",
                number(found["centring_agreement"], ".1%"),
                f"chance: {number(chance, '.1%')}",
            )
        )
    return Table(f"A view's cluster: {how}.", ("figure", "value", "beside it"), rows)


def _levels(result: Analysis) -> list[tuple[str, str, str]]:
    """Situations or levels? Three figures, each beside its value where levels mean nothing."""
    found, (name, group) = result.figures, group_of(result.subject.views)
    permuted = number(found["levels_spanned_permuted"], ".1f")
    return [
        (
            f"{name}s that a view's cluster spans, of {len(set(group))}",
            number(found["levels_spanned"], ".1f"),
            f"permuted clusters: {permuted}; one {name} each: 1",
        ),
        (
            f"effective {name}s per cluster over their value for permuted clusters",
            number(found["levels_per_cluster"], ".2f"),
            f"whatever the {name}: 1; few {name}s each: near 0",
        ),
        (
            f"share of what clusters say that is the {name} alone",
            number(found["codes_about_level"], ".2f"),
            f"permuted clusters: 0; the {name} alone: 1",
        ),
    ]


def _recorded(result: Analysis) -> list[Block]:
    """What the run itself has measured on its training levels, up to the weights analysed here."""
    subject = result.subject
    figures = last_figures(subject.rows, subject.frames)
    said = verdict(figures, levels=subject.config.train_levels > 0)
    rows = [
        (GLOSSARY[name].label, number(figures[name], form))
        for name, form in RECORDED.items()
        if name in figures
    ]
    if not rows:
        return []
    caption = "The newest figures in metrics.jsonl, on the play that it was trained on."
    words: list[Block] = [] if said is None else [Text(f"{said[0].upper()}{said[1:]}.")]
    table = Table(caption, ("figure", "value"), rows)
    return [Heading("What the run recorded while it trained"), *words, table]


RECORDED = {
    "level_variance": ".1%",
    "level_variance_untrained": ".1%",
    "codes_about_level": ".2f",
    "levels_per_cluster": ".2f",
    **{name: ".2f" for name in CODES if name.startswith("knowing_")},
}


def _usage(found: dict[str, float]) -> str:
    p = found["usage_p"]
    distance, chance = (number(found[f"usage_distance{end}"], ".3f") for end in ("", "_chance"))
    verdict = (
        "too few trajectories to say more"
        if math.isnan(p)
        else "more than trajectories dealt at random differ"
        if p < 0.05
        else "no more than trajectories dealt at random differ"
    )
    return (
        f"{found['used_both']:.0f} clusters are used on both ({found['used_seen']:.0f} on seen, "
        f"{found['used_unseen']:.0f} on unseen levels); "
        f"{number(found['unseen_views_in_seen_clusters'], '.1%')} of the views of unseen "
        "levels are in clusters that seen levels use. Jensen-Shannon distance of the two "
        f"{distance} (0 equal, 1 disjoint; whole trajectories dealt at random: {chance}, "
        f"p = {number(p, '.3f')}): {verdict}."
    )


def _over_training(result: Analysis) -> Block:
    if len(result.moments) < 2:
        return Text("There are no snapshots, so nothing can be said of the course of training.")
    recorded = shorts("clusters_used", "feature_rank", "dead_features").values()
    head = (*shorts("frames", "silhouette", "agreement").values(), *recorded)
    rows = [
        (
            f"{m.frames:,}",
            number(m.silhouette, ".3f"),
            number(m.agreement, ".1%"),
            str(m.used),
            number(m.health["feature_rank"], ".1f"),
            number(m.health["dead_features"], ".1%"),
        )
        for m in result.moments
    ]
    return Table("One fixed set of views, re-encoded by every snapshot.", head, rows)
