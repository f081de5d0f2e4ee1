"""Every figure of a run: what it is called, its unit, and what it is when all is well.

The progress line, curves, tables, reports, pages, analyses and sentences take their words and
bounds from here; no bound of a figure stands anywhere else. Figures of a person's own method
("mine/accuracy") are not in it. docs/figures.md is this file as a table.
"""

import math
from typing import NamedTuple

INF = math.inf


class Range(NamedTuple):
    """Between two numbers, and not on them."""

    low: float = -INF
    high: float = INF

    def holds(self, value: float) -> bool:
        return self.margin(value) > 0

    def margin(self, value: float) -> float:
        """How far inside a value is: 0 on a bound, negative outside."""
        return min(value - self.low, self.high - value)

    def __str__(self) -> str:
        if math.isinf(self.low):
            return "" if math.isinf(self.high) else f"below {self.high:g}"
        return f"above {self.low:g}" if math.isinf(self.high) else f"{self.low:g} to {self.high:g}"


class Figure(NamedTuple):
    short: str
    """On the progress line and above a column."""
    label: str
    """In legends and lists: whole words."""
    unit: str = ""
    healthy: Range = Range()
    """What the tables of an experiment ask for."""
    alive: Range = Range()
    """Outside of it a run says in words that something is wrong."""


# What an evaluation finds on one set of levels. A run records `seen_return` and so on.
LEVELS = {
    "return": Figure("return", "return of an episode", "raw"),
    "stderr": Figure("standard error", "standard error of the return", "raw"),
    "solved": Figure("solved", "solved episodes", "share"),
    "length": Figure("length", "length of an episode", "steps"),
}


def _recorded(split: str) -> dict[str, Figure]:
    """The same of one split's levels, by the names in a log."""
    found = {
        f"{split}_{name}": figure._replace(label=f"{split} levels: {figure.label}")
        for name, figure in LEVELS.items()
    }
    returns = found[f"{split}_return"]._replace(short=split)  # what a progress line has room for
    return found | {f"{split}_return": returns}


RUN = {
    "frames": Figure("frames", "interactions with the environment", "frames"),
    "phase": Figure("phase", "number of the phase of training, from 1"),
    "train_return": Figure("train", "training: return, last 100 episodes", "raw"),
    "intrinsic_reward": Figure("own reward", "the method's own reward"),
    "intrinsic_reward_fresh": Figure(
        "own, fresh", "own reward, episodes begun in the rollout", "nats"
    ),
    "intrinsic_reward_remembered": Figure(
        "own, known", "own reward, episodes it was trained on", "nats"
    ),
    "replayed": Figure("replayed", "episodes begun on a level that was chosen again", "share"),
    "effective_levels": Figure("levels", "effective number of levels in a rollout's steps"),
    "extra_frames": Figure("extra frames", "frames that the method played beside", "frames"),
    "seconds": Figure("seconds", "time of an update by the clock", "s"),
    "speed": Figure("frames/s", "frames per second by the clock", "1/s"),
    "processor": Figure("processor", "time of an update on all cores", "s"),
}
POLICY = {
    "surrogate": Figure("surrogate", "PPO's clipped loss"),
    "value_error": Figure("value error", "error of the value estimate"),
    "advantage_error": Figure("advantage error", "error of DAAC's advantage head"),
    "entropy": Figure("entropy", "entropy of the policy", "nats"),
    "kl": Figure("KL", "how far the policy update moves the policy (KL)", "nats"),
    "clipped": Figure("clipped", "steps whose probability ratio is clipped", "share"),
    "policy_steps": Figure("policy steps", "steps of the policy until it is at its target KL"),
    "policy_grad_norm": Figure("policy gradient", "gradient norm of the policy's loss"),
    "value_grad_norm": Figure("value gradient", "gradient norm of a value network of its own"),
}
OBJECTIVE = {
    "objective_loss": Figure("objective", "the objective's loss, before its weight"),
    "objective_grad_norm": Figure("objective gradient", "gradient norm of the objective's loss"),
    "objective_kl": Figure(
        *("objective's KL", "how far one objective update moves the policy (KL)", "nats"),
        healthy=Range(1e-4, 0.05),
    ),
    "gradient_ratio": Figure("gradient ratio", "objective's gradient over the policy's, unbounded"),
    "gradient_scale": Figure("gradient scale", "what the bound leaves of that gradient", "share"),
    "anchor": Figure("anchor", "loss that holds the policy in place"),
}
FEATURES = {
    "feature_std": Figure("feature scale", "standard deviation of the features"),
    "feature_rank": Figure(
        *("effective rank", "effective rank of the features"),
        healthy=Range(low=20),
        alive=Range(low=10),
    ),
    "dead_features": Figure("dead", "features that hardly vary", "share"),
    "level_variance": Figure(
        "features: between levels", "features: variance between levels", "share"
    ),
    "level_variance_untrained": Figure("(untrained)", "the same of an untrained encoder", "share"),
    "memory_kl": Figure(
        "worth of memory", "KL from the policy to one that sees the present frame alone", "nats"
    ),
}
CLUSTERING = {
    "cluster": Figure("L_clust", "clustering loss L_clust", "nats"),
    "predict": Figure("L_pred", "neighbour-prediction loss L_pred"),
    "mined": Figure("mined", "neighbours that could be mined", "share"),
    "fold": Figure("fold", "loss where the features' rank is low"),
    "inverse": Figure("L_inv", "inverse-dynamics loss", "nats"),
    "views": Figure("views", "views in a minibatch"),
    "view_cosine": Figure(
        *("views' cosine", "views: mean cosine"),
        healthy=Range(high=0.7),
        alive=Range(high=0.95),
    ),
    "view_rank": Figure("views' rank", "effective rank of the views"),
    "predict_cosine": Figure(
        *("cosine of v'", "v' of the prediction loss: mean cosine"),
        healthy=Range(high=0.7),
    ),
    "predict_rank": Figure("rank of v'", "effective rank of v'"),
    "code_entropy": Figure("code entropy", "entropy of a view's code", "nats"),
    "code_entropy_random": Figure("(random)", "entropy of random vectors' codes", "nats"),
    "mean_code_entropy": Figure("mean code's entropy", "entropy of the mean code", "nats"),
    "clusters_used": Figure("clusters used", "clusters that some view is nearest to"),
}
CODES = {
    "codes_about_level": Figure(
        "codes: level's share", "codes: share of what they say that is the level", "share"
    ),
    "levels_per_cluster": Figure("levels per cluster", "levels per cluster, over permuted codes"),
    "knowing_all": Figure("loss", "loss of the method on codes", "nats"),
    "knowing_before": Figure("repeating", "loss of repeating the code before", "nats"),
    "knowing_time": Figure("position, time", "loss of knowing position and time", "nats"),
    "knowing_action": Figure("action alone", "loss of knowing the action alone", "nats"),
    "knowing_nothing": Figure("nothing", "loss of knowing nothing", "nats"),
    "action_gain": Figure(
        "actions' worth", "what knowing the actions is worth", "nats", healthy=Range(low=0.02)
    ),
    "frame_gain": Figure("frame's worth", "what knowing the frame is worth", "nats"),
}
OTHER_METHODS = {
    "contrast": Figure("contrast", "contrastive loss", "nats"),  # CURL, DRIML, PSE
    "contrast_blind": Figure("contrast, blind", "contrastive loss of a blind guess", "nats"),
    "contrast_of_features": Figure(
        "contrast, own", "contrastive loss that features can change", "nats"
    ),
    "top_one": Figure("top one", "own partner found among all", "share"),
    "order": Figure("order", "loss of who tells which frame came first", "nats"),
    "confusion": Figure("confusion", "how sure that one is, whatever is true", "nats"),
    "order_accuracy": Figure("order told", "pairs whose order is told rightly", "share"),
    "auxiliary_error": Figure("auxiliary values", "PPG's phase: error of the policy's own values"),
    "auxiliary_kl": Figure("auxiliary KL", "PPG's phase: how far the policy has moved", "nats"),
    "auxiliary_value_error": Figure("auxiliary, value", "PPG's phase: error of the value network"),
    "auxiliary_grad_norm": Figure("auxiliary gradient", "PPG's phase: norm of the gradient"),
    "augmented_kl": Figure("augmented: KL", "how far augmenting frames moves the policy", "nats"),
    "augmented_value_error": Figure("augmented: values", "half their squared change"),
    "crop_share": Figure("crops", "rollouts with crops so far", "share"),
    "colour_share": Figure("colours", "rollouts with other colours so far", "share"),
    "convolution_share": Figure("convolutions", "rollouts with convolutions so far", "share"),
    "prediction": Figure("prediction", "SPR's prediction loss"),
    "target_cosine": Figure("targets' cosine", "SPR's targets: mean cosine"),
    "bisimulation": Figure("bisimulation", "DBC's loss of the metric"),
    "likelihood": Figure("likelihood", "DBC's loss of the transition model", "nats"),
    "reward_error": Figure("reward error", "error of DBC's predicted reward"),
    "latent_distance": Figure("latents apart", "mean distance of two latents"),
    "latent_std": Figure(
        "latents' scale", "standard deviation of latents in a minibatch", alive=Range(low=0.01)
    ),
    "policy_distance": Figure("policies apart", "mean distance of two levels' policies", "share"),
    "nearest_distance": Figure("nearest apart", "distance of the nearest policies", "share"),
    "negative_weight": Figure("negatives", "mean weight of a negative", "share"),
    "nearest_found": Figure("nearest found", "steps whose nearest policy is found", "share"),
    "skill_accuracy": Figure("skills told", "steps whose skill is told", "share"),
    "skill_entropy": Figure("skill entropy", "entropy of a step's skill", "nats"),
}
# What `analyse`, `explore` and `margins` find in what a run has learnt.
ANALYSED = {
    "silhouette": Figure("silhouette", "silhouette (cosine, hard assignments)"),
    "agreement": Figure("raw agreement", "agreement of cluster and raw argmax", "share"),
    "connectivity": Figure("temporal connectivity", "cosine of centres, consecutive views"),
    "largest_cluster": Figure("largest cluster", "views in the largest cluster"),
    "stay": Figure("followed by itself", "views whose next view has their cluster", "share"),
    "next_entropy": Figure("entropy of the next cluster", "entropy of the next cluster", "nats"),
    "information_action": Figure(
        "says of the action", "what a cluster says of the action, adjusted for chance"
    ),
    "information_level": Figure(
        "says of the level", "what a cluster says of the level, adjusted for chance"
    ),
}
# What tables and sentences make of recorded figures; a run does not record these.
DERIVED = {
    "random_return": Figure("random play", "return of random play", "raw"),
    "normalised": Figure(
        "normalised", "normalised by the easy-mode ranges (jumper and leaper: minimum 3)"
    ),
    "gap": Figure("gap", "generalisation gap: seen minus held-out return", "raw"),
    "area": Figure("area", "mean height of the curve of a return", "raw"),
    "entropy_below_random": Figure(
        "code entropy below random", "code entropy below random", "nats", healthy=Range(low=0)
    ),
    "code_content": Figure(
        "code content", "what codes say, over random vectors' codes", alive=Range(low=0.1)
    ),
    "scale_change": Figure(
        *("feature scale over its start", "feature scale over its first value"),
        healthy=Range(0.25, 4),
    ),
    "rank_change": Figure(
        "rank over its start", "effective rank over its first value", alive=Range(low=0.5)
    ),
    "lead": Figure("lead", "loss of knowing less minus the method's", "nats", Range(low=0.05)),
    "lead_shuffled": Figure(
        *("lead, shuffled", "the same for codes of another pair of the stretch", "nats"),
        healthy=Range(-0.02, 0.02),
    ),
}
GROUPS = {
    "the run": RUN,
    "one set of levels": LEVELS,
    "returns": _recorded("seen") | _recorded("unseen") | _recorded("validation"),
    "the policy": POLICY,
    "the objective": OBJECTIVE,
    "features": FEATURES,
    "views and clusters": CLUSTERING,
    "what codes are about": CODES,
    "other methods": OTHER_METHODS,
    "what a run has learnt": ANALYSED,
    "made of the others": DERIVED,
}
GLOSSARY = {name: figure for group in GROUPS.values() for name, figure in group.items()}


def shorts(*names: str) -> dict[str, str]:
    """Name -> heading, in this order."""
    return {name: GLOSSARY[name].short for name in names}


def returns_on(split: str) -> str:
    """The heading of a column of returns where nothing else says that they are: unseen return."""
    return f"{GLOSSARY[f'{split}_return'].short} {GLOSSARY['return'].short}"


# What an axis shows at least, by the first figure of its panel: else a small change would fill it.
SCALES = {
    "train_return": Range(0.0),
    "view_cosine": Range(0.0, 1.0),
    "code_entropy": Range(0.0),
    "action_gain": Range(-0.05, 0.25),
    "codes_about_level": Range(0.0, 1.0),
    "levels_per_cluster": Range(0.0, 1.0),
    "feature_rank": Range(0.0, 64.0),
    "entropy": Range(0.0),
}


def as_markdown() -> str:
    """The glossary for people, a table for each group."""
    parts = []
    for title, group in GROUPS.items():
        rows = [
            f"| `{name}` | {f.label} | {f.unit} | {f.healthy} | {f.alive} |"
            for name, f in group.items()
        ]
        head = "| figure | what it is | unit | healthy | alive |\n|---|---|---|---|---|"
        parts.append("\n".join([f"## {title[0].upper()}{title[1:]}", "", head, *rows]))
    return "\n\n".join(parts) + "\n"
