"""What a person should hear of, from the figures of updates: a phase, a sick representation.

The verdict on a clustering has two parts: is it collapsed or not, and what are its codes about?
"""

import math
from collections.abc import Iterable
from typing import Any

from crosstraj.config.values import Config
from crosstraj.health.glossary import GLOSSARY
from crosstraj.objectives.phases import in_words


class Watch:
    """Says what there is to say once, when it begins; not again with every update.

    rows: what a run that goes on has recorded before; figures that fall have fallen since then.
    """

    def __init__(self, config: Config, rows: Iterable[dict[str, Any]] = ()) -> None:
        self.config = config
        self.known: set[str] = set()
        self.first_rank = first_rank(rows)

    def news(self, metrics: dict[str, float]) -> list[str]:
        """Sentences for what holds now and did not hold before."""
        if math.isnan(self.first_rank):
            self.first_rank = first_rank([metrics])
        now = complaints(metrics, self.config, self.first_rank)
        if "phase" in metrics:
            sentence = in_words(self.config.schedule, int(metrics["phase"]) - 1)
            now[sentence] = sentence
        fresh = [sentence for kind, sentence in now.items() if kind not in self.known]
        self.known = set(now)
        return fresh


def complaints(
    metrics: dict[str, float], config: Config, rank_before: float = math.nan
) -> dict[str, str]:
    """A sentence for each thing that is wrong, by its name; none when all is well.

    rank_before: the effective rank of the features when the run began, if it is known.
    """
    found: dict[str, str | None] = {
        "rank": fallen_rank(rank_before, metrics.get("feature_rank", math.nan))
    }
    # A person's own method knows its figures by their bare names.
    own = {name.partition("/")[2]: figure for name, figure in metrics.items() if "/" in name}
    found |= config.objective.complaints(metrics | own)
    return {name: sentence for name, sentence in found.items() if sentence is not None}


def first_rank(rows: Iterable[dict[str, Any]]) -> float:
    """The first effective rank that a run recorded, of an encoder that has hardly learnt."""
    return next((row["feature_rank"] for row in rows if "feature_rank" in row), math.nan)


def fallen_rank(before: float, now: float) -> str | None:
    """Do the features vary in far fewer directions than they did? Whatever the method.

    Both conditions are needed: on starpilot PPO's rank falls from 95 to 29 and rises again, on maze
    it is 9 before anything is learnt.
    """
    alive, change = GLOSSARY["feature_rank"].alive, GLOSSARY["rank_change"].alive
    if math.isnan(before + now) or alive.holds(now) or change.holds(now / before):
        return None
    return (
        f"the features have folded: their effective rank is {now:.1f}, and was {before:.1f} at "
        f"first (alive: {alive}, or {change} times that); see docs/methods.md#rank"
    )


def verdict(
    metrics: dict[str, float], *, levels: bool = True, rank_before: float = math.nan
) -> str | None:
    """All parts in one sentence, from the newest figures; None where there is nothing to say.

    A fallen rank is said of every method, the rest of those with codes.
    levels: does the environment have levels? Else the figures are about episodes.
    """
    folded = fallen_rank(rank_before, metrics.get("feature_rank", math.nan))
    if "codes_about_level" not in metrics or "view_cosine" not in metrics:
        return folded
    collapsed = not GLOSSARY["view_cosine"].alive.holds(metrics["view_cosine"])
    share = min(1.0, max(0.0, metrics["codes_about_level"]))
    where = "level" if levels else "episode"
    parts = [
        "collapsed" if collapsed else "not collapsed",
        f"an estimated {share:.0%} of what its codes say is which {where} a view is from",
    ]
    if {"knowing_all", "knowing_before"} <= metrics.keys():
        gained = metrics["knowing_before"] - metrics["knowing_all"]
        better = f"{abs(gained):.2f} nats {'better' if gained > 0 else 'worse'}"
        parts.append(f"they are foretold {better} than by repeating the code before")
    if "action_gain" in metrics:
        parts.append(f"knowing the actions is worth {metrics['action_gain']:.3f} nats")
    if folded:
        parts.append(folded)
    return "; ".join(parts)
