"""How far views are from the border of their cluster, and how far perturbed frames move them.

Two clusterings of the same views: by `scores` (the nearest prototype), and by `codes`, after
Sinkhorn, whose column potentials are those of the batch and held while one view moves.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from crosstraj.nn.sinkhorn import log_sinkhorn
from crosstraj.theory.decision_processes import Array
from crosstraj.theory.prototype_cells import assign, margins, unit

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


class Share(NamedTuple):
    inside: float  # of views that move by less than their margin: kept for certain (T3)
    same: float  # of views that keep their cluster, for certain or not


class Moved(NamedTuple):
    change: Array  # [B] how far each unit view moves
    ratio: dict[str, Array]  # the same over its margin, for each clustering
    share: dict[str, Share]


class Margins(NamedTuple):
    margin: dict[str, Array]  # [B] by clustering; and of random views, by scores
    used: dict[str, int]  # clusters that have a view
    agree: float  # share of views that both clusterings put into the same cluster
    moved: dict[str, Moved]  # by perturbation


def potentials(scores: Tensor, rounds: int) -> Tensor:
    """[C] what Sinkhorn adds to the scores of each cluster, up to a number common to all."""
    added = log_sinkhorn(scores, rounds) - scores
    return (added - added.mean(1, keepdim=True)).mean(0)


def measure(
    prototypes: Tensor,
    views: Tensor,
    perturbed: dict[str, Tensor],
    *,
    temperature: float,
    rounds: int,
    rng: np.random.Generator,
) -> Margins:
    """From prototypes [C, D], views [B, D] and the same views with one frame perturbed."""
    centres, v = _array(prototypes), unit(_array(views))
    scores = torch.from_numpy(v @ centres.T / temperature)
    offsets = {
        "scores": np.zeros(len(centres)),
        "codes": temperature * _array(potentials(scores, rounds)),
    }
    margin = {name: margins(centres, v, offset) for name, offset in offsets.items()}
    cell = {name: assign(centres, v, offset) for name, offset in offsets.items()}
    moved = {}
    for kind, other in perturbed.items():
        w = unit(_array(other))
        change = np.linalg.norm(w - v, axis=1)
        share = {
            name: Share(
                float((change < margin[name]).mean()),
                float((assign(centres, w, offset) == cell[name]).mean()),
            )
            for name, offset in offsets.items()
        }
        ratio = {name: change / margin[name].clip(1e-300) for name in offsets}
        moved[kind] = Moved(change, ratio, share)
    blind = margins(centres, unit(rng.normal(size=v.shape)))
    used = {name: len(np.unique(cells)) for name, cells in cell.items()}
    agree = float((cell["scores"] == cell["codes"]).mean())
    return Margins(margin | {"random views": blind}, used, agree, moved)


def summary(found: Margins) -> dict[str, object]:
    """The figures of the table, as plain JSON values."""
    return {
        "margin": {
            name: {f"{q:.0%}": float(np.quantile(values, q)) for q in QUANTILES}
            for name, values in found.margin.items()
        },
        "clusters_used": found.used,
        "scores_and_codes_agree": found.agree,
        "perturbation": {
            kind: {
                "median_change": float(np.median(moved.change)),
                **{
                    f"{what}_{name}": getattr(share, what)
                    for name, share in moved.share.items()
                    for what in Share._fields
                },
            }
            for kind, moved in found.moved.items()
        },
    }


def _array(tensor: Tensor) -> Array:
    return tensor.detach().cpu().double().numpy()
