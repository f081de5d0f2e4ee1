"""What an analysis finds in a run: the records that its tables, figures and summary are made of."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosstraj.analysis.cluster_levels import Span
from crosstraj.analysis.embed import Embedding, Lens
from crosstraj.analysis.layout import Coordinates
from crosstraj.analysis.measures import Connectivity
from crosstraj.analysis.play import Views
from crosstraj.config.values import Config
from crosstraj.errors import BadInput


class Choices(NamedTuple):
    """What a person may choose of an analysis."""

    views: int
    step: int | None  # frame count of a snapshot or checkpoint; None: the newest checkpoint
    span: int  # steps that a view covers; 0: as many as it has keypoints
    kmeans: int  # clusters of k-means on features; 0: the method's own prototypes

    def check(self, keypoints: int) -> None:
        if self.views < 20:
            raise BadInput(f"views={self.views}: at least 20 are needed")
        if self.span and self.span < keypoints:
            raise BadInput(f"span={self.span}: a view has {keypoints} keypoints; give no fewer")
        if self.kmeans and not 2 <= self.kmeans <= self.views // 2:
            raise BadInput(f"kmeans={self.kmeans}: from 2 to half of views={self.views}")


class Subject(NamedTuple):
    """A run with the fixed set of views that it is looked at through."""

    run: Path
    config: Config
    choices: Choices
    lens: Lens
    frames: int  # of training, behind the weights that played
    views: Views
    span: int
    actions: list[str]
    snapshots: list[int]  # frame counts, ascending, below `frames`
    rows: list[dict[str, Any]]  # of metrics.jsonl
    notes: list[str]  # what a reader must know of this run

    @property
    def steps(self) -> list[int | None]:
        """Every snapshot in order, then the weights that played."""
        return [*self.snapshots, self.choices.step]

    def loaded(self) -> Iterator[int]:
        """Puts on the weights of each step in turn; one that cannot be read is named, left out."""
        for step in self.steps:
            try:
                yield self.lens.load(step)
            except BadInput as error:
                if str(error) not in self.notes:
                    print(f"left out: {error}", file=sys.stderr)
                    self.notes.append(f"left out: {error}")


class Moment(NamedTuple):
    """The fixed set, or a part of it, through the weights of one snapshot."""

    frames: int
    silhouette: float
    agreement: float  # of the cluster with the raw argmax
    used: int  # clusters
    health: dict[str, float]


class Analysis(NamedTuple):
    subject: Subject
    embedding: Embedding
    place: Coordinates
    moments: list[Moment]
    connectivity: Connectivity | None
    transitions: Any | None  # sparse counts [C, C]
    counts: NDArray[np.int64] | None  # views [2, C] on seen and unseen levels
    span: Span | None  # levels per cluster
    figures: dict[str, Any]  # numbers, by name
