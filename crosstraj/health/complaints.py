"""What is wrong with a representation, in words, by its figures: clusterings, and DBC's latents."""

import math

from crosstraj.health.glossary import GLOSSARY


def of_clusters(metrics: dict[str, float], clusters: int) -> dict[str, str | None]:
    """What CTRL and its kin hear of: by name, None where nothing is wrong."""
    return {
        "collapse": collapse(metrics, clusters),
        "too few views": too_few_views(metrics, clusters, 2, "clusters"),
    }


def collapse(metrics: dict[str, float], clusters: int) -> str | None:
    """Have all views come to point one way?

    Occupied clusters alone would show nothing: random vectors fill as many. Each figure is given
    beside its value for random unit vectors of the same shape.
    """
    cosine = metrics.get("view_cosine", 0.0)
    if GLOSSARY["view_cosine"].alive.holds(cosine):
        return None
    return (
        f"the representation has collapsed: views have a mean cosine of {cosine:.3f} (random "
        f"vectors: 0), code entropy is {metrics['code_entropy']:.2f} of {math.log(clusters):.2f} "
        f"(random vectors: {metrics['code_entropy_random']:.2f}); see docs/methods.md"
    )


def empty_codes(metrics: dict[str, float], clusters: int) -> str | None:
    """Is every view assigned to all prototypes alike? To predict that takes no features at all.

    What a code says is how far its entropy is below ln C; random unit vectors set the scale.
    """
    most = math.log(clusters)
    entropy, random = metrics.get("code_entropy", 0.0), metrics.get("code_entropy_random", most)
    alive = GLOSSARY["code_content"].alive
    if random >= most or alive.holds((most - entropy) / (most - random)):
        return None
    return (
        f"the codes say next to nothing: their entropy is {entropy:.3f} of {most:.3f} (random "
        f"vectors: {random:.3f}), so that each view belongs to all prototypes nearly alike; views "
        f"have a mean cosine of {metrics['view_cosine']:.3f} and an effective rank of "
        f"{metrics['view_rank']:.1f}; see docs/methods.md"
    )


def too_few_views(metrics: dict[str, float], clusters: int, each: int, name: str) -> str | None:
    """Sinkhorn fills every cluster alike, which means little with fewer views than `each` has."""
    views = metrics.get("views", math.inf)
    if views >= each * clusters:
        return None
    return (
        f"{views:.0f} views per minibatch for {clusters} {name}: fewer than {each} each; lower "
        f"objective.{name}, or raise envs or rollout_steps, or lower representation.minibatches"
    )


def collapse_of_latents(metrics: dict[str, float]) -> str | None:
    """Has DBC pulled all latents together? Where rewards never differ its metric is 0 everywhere.

    (Kemertas and Aumentado-Armstrong, 2021, name this fault.)
    """
    spread, alive = metrics.get("latent_std", 1.0), GLOSSARY["latent_std"].alive
    if alive.holds(spread):
        return None
    return (
        f"the representation has collapsed: latents have a standard deviation of {spread:.4f} over "
        f"a minibatch (alive: {alive}) and a mean distance of "
        f"{metrics['latent_distance']:.4f}; rewards may differ too rarely; see docs/methods.md"
    )
