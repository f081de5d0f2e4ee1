"""Trajectories of the frozen policy on seen and unseen levels, cut into views.

A trajectory is one episode. It is cut into windows of `span` steps, one after another, and each
window gives one view of T keypoints; what is left at an episode's end is dropped. With span = T a
view is "every T states", as in the paper's figure of temporal connectivity. Procgen resets inside
the step that ends an episode, so the frame at `done` already belongs to the next trajectory.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from crosstraj.config.groups import LevelSplit
from crosstraj.config.values import Config
from crosstraj.data.rollout import Remembered
from crosstraj.data.skills import Followed, Skills
from crosstraj.envs import level_seeds
from crosstraj.errors import BadInput
from crosstraj.learning.evaluation import Examiner, Player, Pool
from crosstraj.randomness import ANALYSES, derived_seed, generator

STEPS = 256  # about how long each environment plays: not the beginnings of episodes alone
PATIENCE = 1000  # further steps of open episodes, for their returns (Procgen ends most by then)
MOST_ENVS = 64
SIDES: tuple[LevelSplit, LevelSplit] = ("seen", "unseen")  # that views come from


class Views(NamedTuple):
    """One fixed set of views, ordered by split, trajectory and time."""

    frames: NDArray[np.uint8]  # [B, T, H, W, C]
    action: NDArray[np.int64]  # [B, T]
    step: NDArray[np.int64]  # [B, T] counted from the beginning of the episode
    unseen: NDArray[np.bool_]  # [B]
    trajectory: NDArray[np.int64]  # [B] numbered over both splits
    window: NDArray[np.int64]  # [B] the view's place along its trajectory
    level: NDArray[np.int64]  # [B] -1 where there are no levels
    value: NDArray[np.float32]  # [B] at the first keypoint, in the scale of training
    return_to_go: NDArray[np.float32]  # [B] raw, from there to the end; NaN: no end was seen
    length: NDArray[np.int64]  # [B] steps of the whole episode; -1: no end was seen
    memory: NDArray[np.float32]  # [B, T, K] before each keypoint, by the weights that played

    def __len__(self) -> int:  # of a NamedTuple it would be the number of fields
        return len(self.unseen)

    def take(self, rows: NDArray[np.int64]) -> "Views":
        columns: list[Any] = [column[rows] for column in self]
        return Views(*columns)


@dataclass
class _View:
    trajectory: tuple[int, int]  # environment, episode
    window: int
    level: int
    points: list[tuple[int, int, float]] = field(default_factory=list)  # step, action, value
    frames: list[NDArray[np.uint8]] = field(default_factory=list)  # until it is whole
    memory: list[NDArray[np.float32]] = field(default_factory=list)  # before each keypoint
    slot: int = -1  # then: where they are in the film
    return_to_go: float = float("nan")
    length: int = -1


class _Row:
    """One environment: the open episode, its rewards, and the views cut from it so far."""

    def __init__(self, number: int, keypoints: int, span: int, rng: np.random.Generator) -> None:
        self.number, self.keypoints, self.span, self.rng = number, keypoints, span, rng
        self.episode = 0
        self.begin()

    def begin(self) -> None:
        self.rewards: list[float] = []
        self.views: list[_View] = []
        self.open: _View | None = None
        self.chosen: set[int] = set()

    def see(
        self,
        frame: NDArray[np.uint8],
        memory: NDArray[np.float32],
        action: int,
        value: float,
        level: int,
        record: bool,
    ) -> bool:
        """One step, before its reward is known; whether it completed a view."""
        step = len(self.rewards)
        place = step % self.span
        if place == 0:
            self.open = None
            if record:
                self.open = _View((self.number, self.episode), step // self.span, level)
                chosen = self.rng.permutation(self.span)[: self.keypoints]
                self.chosen = {int(number) for number in chosen}
        if self.open is None:
            return False
        if place in self.chosen:
            self.open.points.append((step, action, value))
            self.open.frames.append(frame.copy())
            self.open.memory.append(memory)
        if place < self.span - 1 or not record:
            return False
        self.views.append(self.open)
        return True

    def end(self) -> list[_View]:
        """The episode is over: its views, which now know what was still to come."""
        to_go = np.cumsum(self.rewards[::-1])[::-1]
        for view in self.views:
            view.return_to_go = float(to_go[view.points[0][0]])
            view.length = len(self.rewards)
        views = self.views
        self.episode += 1
        self.begin()
        return views


def play(
    pool: Pool,
    player: Player,
    skills: Skills,
    film: NDArray[np.uint8],
    *,
    span: int,
    rng: torch.Generator,
    draws: np.random.Generator,
    greedy: bool = False,
    device: str = "cpu",
    to_end: bool = True,
    shown: Callable[[int], None] = lambda count: None,
) -> list[_View]:
    """Views until the film [B, T, H, W, C] is full; open episodes are then played `to_end`."""
    envs, (count, keypoints) = pool.envs.num_envs, film.shape[:2]
    obs, level = pool.rewind()
    followed = Followed(skills, envs, device, rng)
    remembered = Remembered(player.memory, envs, device)
    rows = [_Row(number, keypoints, span, draws) for number in range(envs)]
    views: list[_View] = []
    cut, late, waited = 0, 0, 0
    while True:
        record = cut < count
        playing = np.array([record or (to_end and bool(row.views)) for row in rows])
        waited += not record
        late = late + 1 if record else 0
        if not playing.any() or waited > PATIENCE or late > 4 * PATIENCE:
            break
        numbers = np.flatnonzero(playing)
        frames = torch.from_numpy(obs[numbers]).to(device)
        seen, memory = remembered.before(frames, numbers), remembered.state.cpu().numpy().copy()
        decision = player.act(seen, followed.context[numbers], rng, greedy=greedy)
        remembered.keep(decision, numbers)
        action = np.zeros(envs, np.int64)  # those who are through play on unrecorded
        action[numbers] = decision.action.cpu().numpy()
        value = decision.value.float().cpu().numpy()
        for number, worth in zip(numbers, value, strict=True):
            at = obs[number], memory[number], int(action[number]), float(worth), int(level[number])
            whole = rows[number].see(*at, cut < count)
            if whole:
                view = rows[number].views[-1]
                film[cut], view.slot, view.frames = view.frames, cut, []
                cut, late = cut + 1, 0
                shown(1)
        obs, reward, terminated, truncated, info = pool.envs.step(action)
        done = terminated | truncated
        for number in numbers:
            rows[number].rewards.append(float(reward[number]))
            if done[number]:
                views += rows[number].end()
        followed.step(torch.from_numpy(done), rng)
        remembered.forget(torch.from_numpy(done))
        level = level_seeds(info, envs)
    for row in rows:
        views += row.views  # of episodes whose end was not seen
    return sorted(views, key=lambda view: (view.trajectory, view.window))


def environments(count: int, span: int) -> int:
    """How many to play for `count` views, so that each goes on for about STEPS steps."""
    return min(MOST_ENVS, max(1, round(count * span / STEPS)))


def examiner_for(config: Config, count: int, span: int) -> Examiner:
    """The run's own evaluation pools, with as many environments as `count` views per split need."""
    envs = environments(count, span)
    return Examiner(
        replace(config, evaluation=replace(config.evaluation, envs=envs, episodes=envs))
    )


def collect(
    examiner: Examiner,
    player: Player,
    skills: Skills,
    count: int,
    *,
    keypoints: int,
    span: int,
    to_end: bool = True,
    shown: Callable[[int], None] = lambda count: None,
) -> Views:
    """`count` views, half of them from seen levels and half from unseen ones.

    to_end: play open episodes on, for the returns and lengths of their views.
    """
    config, half = examiner.config, (count + 1) // 2
    image = examiner.pool("seen").envs.single_observation_space.shape or ()
    # One copy of the frames only: they are most of the memory.
    film = np.empty((count, keypoints, *image), np.uint8)
    both = [
        play(
            examiner.pool(split),
            player,
            skills,
            film[half:] if index else film[:half],
            span=span,
            rng=generator(config.seed, ANALYSES, index),
            draws=np.random.default_rng(derived_seed(config.seed, ANALYSES, index)),
            greedy=config.evaluation.greedy,
            device=config.machine.device,
            to_end=to_end,
            shown=shown,
        )
        for index, split in enumerate(SIDES)
    ]
    if not all(both):
        raise BadInput(
            f"no episode of {config.env} was as long as a view, {span} steps; lower --span"
        )
    return columns(both, film, half)


def columns(both: list[list[_View]], film: NDArray[np.uint8], half: int) -> Views:
    """The views of both splits in order; the film is put into the same order, in place."""
    numbered: dict[tuple[int, tuple[int, int]], int] = {}

    def rows() -> Iterator[tuple[int, _View]]:
        for split, views in enumerate(both):
            for view in views:
                numbered.setdefault((split, view.trajectory), len(numbered))
                yield split, view

    pairs = list(rows())
    views = [view for _, view in pairs]

    def column(values: list[Any], kind: type) -> NDArray[Any]:
        return np.array(values, kind)

    order = column([view.slot + half * split for split, view in pairs], np.int64)
    reorder(film, order)
    return Views(
        frames=film[: len(views)],
        action=column([[point[1] for point in view.points] for view in views], np.int64),
        step=column([[point[0] for point in view.points] for view in views], np.int64),
        unseen=column([split == 1 for split, _ in pairs], np.bool_),
        trajectory=column([numbered[split, view.trajectory] for split, view in pairs], np.int64),
        window=column([view.window for view in views], np.int64),
        level=column([view.level for view in views], np.int64),
        value=column([view.points[0][2] for view in views], np.float32),
        return_to_go=column([view.return_to_go for view in views], np.float32),
        length=column([view.length for view in views], np.int64),
        memory=column([view.memory for view in views], np.float32),
    )


def reorder(rows: NDArray[Any], order: NDArray[np.int64]) -> None:
    """rows[: len(order)] = rows[order] without a second copy; `order` repeats nothing."""
    left = np.setdiff1d(np.arange(len(rows)), order)
    whole = np.concatenate([order, left])
    done = np.zeros(len(rows), bool)
    for start in range(len(rows)):
        if done[start]:
            continue
        kept, at = rows[start].copy(), start
        while whole[at] != start:
            rows[at], done[at] = rows[whole[at]], True
            at = whole[at]
        rows[at], done[at] = kept, True
