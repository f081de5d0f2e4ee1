"""Beside every moment of a clip: frames of the same cluster from other levels.

One looks at cross-trajectory clustering at work. The cluster of a moment is that of the view of its
last T steps, T keypoints one after another, inside its episode; an episode's first T - 1 moments
have none. Clusters are those of docs/analysis.md: Sinkhorn over a set of views, here those of the
clip and as many more from other levels, half of them seen and half unseen.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstraj.analysis.embed import Lens
from crosstraj.analysis.play import Views, collect, examiner_for
from crosstraj.clips.scenes import Moment
from crosstraj.clips.tiles import COMPANY, Company
from crosstraj.envs.showing import newest_image

LIBRARY = 1000  # views that company is chosen from

Place = tuple[int, int]  # tile, moment


def company(lens: Lens, tiles: Sequence[Sequence[Moment]]) -> list[list[Company]] | None:
    """By tile and moment; None for a method without prototypes."""
    config, keypoints = lens.trained.configuration, lens.keypoints
    if lens.clustering is None:
        return None
    found = [[Company(-1, ())] * len(tile) for tile in tiles]
    places, own = views_of(tiles, keypoints)
    if not places:
        return found
    library = collect(
        examiner_for(config, LIBRARY // 2, keypoints),
        lens.trained.agent,
        lens.trained.objective,
        LIBRARY,
        keypoints=keypoints,
        span=keypoints,
        to_end=False,  # nobody asks for their returns
    )
    clusters = lens.embed(joined(own, library)).clusters
    assert clusters is not None  # it has prototypes
    mine, theirs = clusters.cluster[: len(own)], clusters.cluster[len(own) :]
    for (tile, number), cluster in zip(places, mine, strict=True):
        level = tiles[tile][number].level
        rows = others(theirs, library.level, int(cluster), level)
        frames = newest_image(library.frames[rows, -1], config.frame_stack)
        found[tile][number] = Company(int(cluster), tuple(frames))
    return found


def views_of(tiles: Sequence[Sequence[Moment]], keypoints: int) -> tuple[list[Place], Views]:
    """The views of the clip's moments, and whose they are; none crosses an episode's end."""
    places, rows = list[Place](), list[list[Moment]]()
    trajectory = list[int]()
    numbered: dict[tuple[int, int], int] = {}
    for tile, moments in enumerate(tiles):
        for number, moment in enumerate(moments):
            if moment.step < keypoints - 1:
                continue
            places.append((tile, number))
            rows.append(list(moments[number - keypoints + 1 : number + 1]))
            trajectory.append(numbered.setdefault((tile, moment.episode), len(numbered)))
    first = [row[0] for row in rows]
    nothing = np.full(len(rows), np.nan, np.float32)
    views = Views(
        frames=np.array([[moment.observation for moment in row] for row in rows], np.uint8),
        action=np.array([[moment.action for moment in row] for row in rows], np.int64),
        step=np.array([[moment.step for moment in row] for row in rows], np.int64),
        unseen=np.array([moment.split != "seen" for moment in first], np.bool_),
        trajectory=np.array(trajectory, np.int64),
        window=np.array([moment.step for moment in first], np.int64),
        level=np.array([moment.level for moment in first], np.int64),
        value=np.array([moment.value for moment in first], np.float32),
        return_to_go=nothing,
        length=np.full(len(rows), -1),
        memory=np.array([[moment.memory for moment in row] for row in rows], np.float32),
    )
    return places, views


def joined(own: Views, library: Views) -> Views:
    """Both sets of views as one; trajectories of the second are other ones than of the first."""
    ours, theirs = own._asdict(), library._asdict()
    theirs["trajectory"] = theirs["trajectory"] + int(own.trajectory.max()) + 1
    columns: dict[str, Any] = {name: np.concatenate([ours[name], theirs[name]]) for name in ours}
    return Views(**columns)


def others(
    cluster: NDArray[np.int64], level: NDArray[np.int64], wanted: int, mine: int
) -> NDArray[np.int64]:
    """Rows of the wanted cluster from levels other than mine, at most one of each level.

    Always the same for the same cluster but for my own level, so that pictures do not flicker.
    Where there are no levels (-1), all rows count as others.
    """
    rows = np.flatnonzero((cluster == wanted) & (cluster >= 0) & ((level != mine) | (level < 0)))
    _, first = np.unique(level[rows], return_index=True)
    apart = rows[np.sort(first)] if (level[rows] >= 0).all() else rows
    return apart[:COMPANY]
