"""The map: t-SNE of views on the unit sphere.

Its seed is fixed, and so is the map for a given number of threads, one or two.
Exact neighbours are found among all pairs, n^2 products; the rest grows as n log n (Barnes-Hut).
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

COMPONENTS = 50  # of a PCA before t-SNE, as its authors advise
PERPLEXITY = 30.0
ANGLE = 0.7  # Barnes-Hut's; a fifth less processor time than with 0.5
SEED = 0
THREADS = 2  # sums of two parts are the same in either order; of more, the map may differ

Coordinates = NDArray[np.float32]  # [B, 2]


def tsne(vectors: NDArray[Any], start: Coordinates | None = None) -> Coordinates:
    """Coordinates [B, 2], from a PCA or from `start`; NaN for vectors that are not finite.

    From a start it goes on gently, 250 steps without exaggeration, so that what has not changed
    stays where it was.
    """
    place = np.full((len(vectors), 2), np.nan, np.float32)
    good = np.isfinite(vectors).all(1)
    count = int(good.sum())
    if count < 5:
        place[good] = np.arange(count)[:, None]
        return place
    unit = normalize(vectors[good])
    if min(unit.shape) > COMPONENTS:
        unit = PCA(COMPONENTS, svd_solver="randomized", random_state=SEED).fit_transform(unit)
    if start is not None and np.isfinite(start[good]).all(1).mean() < 0.5:
        start = None  # from a snapshot that had no places; from one dot nothing would move
    begin = _principal(unit) if start is None else np.ascontiguousarray(start[good])
    begin = np.where(np.isfinite(begin), begin, 0).astype(np.float32)
    options: dict[str, Any] = {} if start is None else {"early_exaggeration": 1.0, "max_iter": 250}
    perplexity = min(PERPLEXITY, (count - 1) / 3)
    with threadpool_limits(min(THREADS, torch.get_num_threads())):
        made = TSNE(perplexity=perplexity, angle=ANGLE, init=begin, random_state=SEED, **options)
        place[good] = made.fit_transform(unit)
    return place


def _principal(vectors: NDArray[Any]) -> Coordinates:
    """The first two principal components, scaled as scikit-learn's own start; never divided by 0.

    Where all vectors are one (a collapsed run), a tiny cloud instead.
    """
    plane = PCA(2, random_state=SEED).fit_transform(vectors)
    scale = plane[:, 0].std()
    if scale < 1e-9:
        plane, scale = np.random.default_rng(SEED).standard_normal(plane.shape), 1.0
    return (plane / scale * 1e-4).astype(np.float32)
