"""Evaluation: equal quotas, records of the episode that ended, the same levels every time."""

import hashlib
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from crosstraj import loop
from crosstraj.config.groups import EvaluationConfig, MachineConfig
from crosstraj.config.presets import plain
from crosstraj.config.values import Config
from crosstraj.data.rollout import Decision
from crosstraj.envs import GAMES, ProcgenConfig
from crosstraj.envs.procgen import LEVEL_LIMIT
from crosstraj.learning.evaluation import (
    EASY_RANGE,
    Episode,
    Examiner,
    Pool,
    evaluate,
    normalised,
    summarise,
)
from crosstraj.learning.signals import Interrupted
from crosstraj.learning.state import Training
from crosstraj.objectives.base import Objective
from crosstraj.policies.ppo import PPOAgent
from tests.helpers import rng
from tests.learning.scripted import NO_SKILLS, SIDE, Array, Scripted, Still, frame


class Dice:
    """Takes any of Procgen's actions."""

    memory = 0

    def act(
        self, frames: Tensor, context: Tensor, rng: torch.Generator, *, greedy: bool = False
    ) -> Decision:
        nothing = torch.zeros(len(frames))
        action = torch.randint(15, (len(frames),), generator=rng)
        return Decision(action, nothing, nothing, torch.zeros(len(frames), 1))


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def scores(records: list[Episode]) -> list[float]:
    return [record.score for record in records]


# --- The estimate


def first_finished(envs: Scripted, count: int) -> list[float]:
    """The naive way: returns of whichever episodes finish first."""
    envs.reset()
    running, finished = np.zeros(envs.num_envs), list[float]()
    while len(finished) < count:
        _, reward, terminated, truncated, _ = envs.step(np.zeros(envs.num_envs, int))
        running += reward
        done = terminated | truncated
        finished += running[done].tolist()
        running[done] = 0
    return finished[:count]


def test_short_episodes_are_not_counted_more_often_than_long_ones() -> None:
    # Half of the levels last 1 step and give 1, half last 10 and give 10: the mean is 5.5.
    envs = Scripted([[1], [10], [1], [10]])
    assert np.mean(scores(evaluate(Pool(envs, 0), Still(), NO_SKILLS, 16, rng()))) == 5.5
    # 9 steps of two short rows give 18 episodes before a long one has ended.
    assert np.mean(first_finished(envs, 16)) == 1.0


def test_the_estimate_is_unbiased_when_each_row_plays_both_lengths() -> None:
    envs = Scripted([[1, 9], [9, 1], [1, 9]])  # every row's first two episodes: 1 and 9
    assert np.mean(scores(evaluate(Pool(envs, 0), Still(), NO_SKILLS, 6, rng()))) == 5.0
    # Finished first: 1, 1 (step 1), 9 (step 9), then 9, 1, 9 (step 10); of four, three are known.
    assert np.mean(first_finished(envs, 3)) == pytest.approx(11 / 3)


def test_every_environment_plays_exactly_its_quota_in_order() -> None:
    envs = Scripted([[1], [2, 5], [7]])
    records = evaluate(Pool(envs, 0), Still(), NO_SKILLS, 9, rng())
    assert [record.level for record in records] == [0, 1, 2, 100, 101, 102, 200, 201, 202]
    assert [record.length for record in records] == [1, 1, 1, 2, 5, 2, 7, 7, 7]


def test_a_record_is_of_the_episode_that_ended_and_not_of_the_next() -> None:
    envs = Scripted([[2, 3], [4, 3]], timeout=4)
    records = evaluate(Pool(envs, 0), Still(), NO_SKILLS, 4, rng())

    def digest(row: int, episode: int) -> str:
        return hashlib.sha256(frame(row, episode, 0).tobytes()).hexdigest()[:16]

    assert records == [
        Episode(0, digest(0, 0), 2.0, 2, "ended"),
        Episode(1, digest(0, 1), 3.0, 3, "solved"),
        Episode(100, digest(1, 0), 4.0, 4, "timeout"),
        Episode(101, digest(1, 1), 3.0, 3, "solved"),
    ]


def test_rows_that_are_through_are_neither_shown_to_the_agent_nor_counted() -> None:
    player = Still()
    records = evaluate(Pool(Scripted([[1], [20]]), 0), player, NO_SKILLS, 4, rng())
    assert player.shown == {(0, 0), (0, 1), (1, 0), (1, 1)}  # row 0 begins 38 more
    assert scores(records) == [1.0, 1.0, 20.0, 20.0]


def test_environments_without_levels_are_recorded_as_level_minus_one() -> None:
    class Nameless(Scripted):
        def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
            return (*super().step(actions)[:4], {})

        def reset(self, **options: Any) -> tuple[Array, dict[str, Any]]:
            return super().reset()[0], {}

    records = evaluate(Pool(Nameless([[2], [2]]), 0), Still(), NO_SKILLS, 4, rng())
    assert [(record.level, record.outcome) for record in records] == [(-1, "ended")] * 4


def test_skills_are_drawn_at_the_beginning_and_where_an_episode_ended() -> None:
    class Skilled(Objective):
        context = 1
        began: list[list[bool]]

        def draw_context(self, previous: Tensor, began: Tensor, rng: torch.Generator) -> Tensor:
            self.began.append(began.tolist())
            return previous + began[:, None]

    skills = Skilled()
    skills.began = []
    evaluate(Pool(Scripted([[1], [2]]), 0), Still(), skills, 2, rng())
    assert skills.began == [[True, True], [True, False], [True, True]]


def test_the_summary_is_the_mean_its_standard_error_and_the_share_of_solved_levels() -> None:
    records = [Episode(0, "", score, 10, "ended") for score in (1.0, 2.0, 3.0)]
    records.append(Episode(0, "", 6.0, 2, "solved"))
    assert summarise({"unseen": records}) == {
        "unseen_return": 3.0,
        "unseen_stderr": pytest.approx((14 / 3) ** 0.5 / 2),  # squared distances: 4, 1, 0, 9
        "unseen_solved": 0.25,
        "unseen_length": 8.0,
    }


def test_one_episode_has_no_standard_error_and_gives_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        summary = summarise({"seen": [Episode(0, "", 2.0, 1, "ended")]})
    assert np.isnan(summary["seen_stderr"])


@pytest.mark.parametrize("game", GAMES)
def test_normalised_returns_are_0_at_the_minimum_and_1_at_the_maximum(game: str) -> None:
    low, high = EASY_RANGE[game]
    assert normalised(game, low) == 0
    assert normalised(game, high) == 1
    assert normalised(game, (low + high) / 2) == pytest.approx(0.5)


def test_the_ranges_are_those_of_the_procgen_paper() -> None:
    assert normalised("bigfish", 20.5) == 0.5
    assert normalised("fruitbot", 15.45) == pytest.approx(0.5)
    assert normalised("jumper", 6.5) == normalised("leaper", 6.5) == 0.5
    assert normalised("starpilot", 2.5) == 0


# --- Actions


@pytest.fixture(scope="module")
def agent() -> PPOAgent:
    agent = PPOAgent(
        (SIDE, SIDE, 1), 4, encoder="laptop", feature_norm="none", context=0, rng=rng(3)
    )
    with torch.no_grad():
        agent.policy.weight.mul_(30)  # as it begins, all actions are nearly equal
    return agent


def test_greedy_play_takes_the_most_probable_action_whatever_the_stream(agent: PPOAgent) -> None:
    pool = Pool(Scripted([[3], [5]]), 0)
    records = [evaluate(pool, agent, NO_SKILLS, 4, rng(s), greedy=True) for s in (0, 1)]

    def best(image: Array) -> int:
        features = agent.encoder(torch.from_numpy(image)[None])
        return int(agent.heads(features, torch.zeros(1, 0))[0].argmax())

    first = sum(1.0 + best(frame(0, 0, step)) for step in range(3))
    assert records[0] == records[1]
    assert records[0][0].score == first


def test_sampled_play_depends_on_the_stream_and_on_nothing_else(agent: PPOAgent) -> None:
    pool = Pool(Scripted([[30], [40]]), 0)
    first, other, again = (evaluate(pool, agent, NO_SKILLS, 2, rng(s)) for s in (0, 1, 0))
    assert first == again
    assert scores(first) != scores(other)


# --- Procgen


def tiny(**changes: Any) -> Config:
    """A configuration whose evaluations take a second."""
    config = replace(
        plain("ppo"),
        env="bossfight",
        envs=2,
        rollout_steps=8,
        encoder="laptop",
        evaluation=EvaluationConfig(episodes=8, envs=4),
        machine=MachineConfig(threads=1),
    )
    return replace(config, **changes)


def never() -> None: ...


def test_seen_levels_are_training_levels_and_unseen_levels_never_are() -> None:
    examiner = Examiner(tiny(procgen=ProcgenConfig(first_level=500, train_levels=3)))
    episodes = examiner.examine(Dice(), NO_SKILLS, 0, never)
    assert {record.level for record in episodes["seen"]} <= {500, 501, 502}
    assert all(record.level >= 503 for record in episodes["unseen"])
    assert [len(records) for records in episodes.values()] == [8, 8]


def test_the_benchmarks_training_levels_are_the_first_200() -> None:
    episodes = Examiner(tiny()).examine(Dice(), NO_SKILLS, 0, never)
    assert all(0 <= record.level < 200 for record in episodes["seen"])
    assert all(record.level >= 200 for record in episodes["unseen"])


def test_validation_takes_the_place_of_unseen_levels_or_stands_beside_them() -> None:
    """What is asked for is played, in this order, and playing more changes none of the others."""

    def played(held_out: Literal["unseen", "validation", "both"]) -> dict[str, list[Episode]]:
        evaluation = EvaluationConfig(episodes=4, envs=4, held_out=held_out)
        return Examiner(tiny(evaluation=evaluation)).examine(Dice(), NO_SKILLS, 0, never)

    both = played("both")
    assert list(both) == ["seen", "unseen", "validation"]
    assert {name: both[name] for name in ("seen", "unseen")} == played("unseen")
    assert {name: both[name] for name in ("seen", "validation")} == played("validation")
    assert all(record.level >= LEVEL_LIMIT for record in both["validation"])
    assert all(200 <= record.level < LEVEL_LIMIT for record in both["unseen"])
    figures = summarise(both)
    scores = [record.score for record in both["validation"]]
    assert figures["validation_return"] == np.mean(scores)
    assert figures["validation_stderr"] == pytest.approx(np.std(scores, ddof=1) / 2)


def test_all_evaluations_play_the_same_levels_with_actions_of_their_own() -> None:
    examiner = Examiner(tiny())
    first, later, again = (examiner.examine(Dice(), NO_SKILLS, n, never) for n in (0, 512, 0))
    assert first == again
    for split in ("seen", "unseen"):
        assert scores_and_lengths(first[split]) != scores_and_lengths(later[split])
        firsts = [
            [(record.level, record.first_frame) for record in episodes[split][::2]]  # quota 2
            for episodes in (first, later)
        ]
        assert firsts[0] == firsts[1]


def scores_and_lengths(records: list[Episode]) -> list[tuple[float, int]]:
    return [(record.score, record.length) for record in records]


def test_a_stack_of_frames_is_rewound_too() -> None:
    examiner = Examiner(tiny(frame_stack=2))
    first, again = (examiner.examine(Dice(), NO_SKILLS, 0, never) for _ in range(2))
    assert first == again


# --- When, and what a signal leaves behind


def evaluated_at(config: Config, frames: int, last: int) -> list[int]:
    """The frame counts at which a run evaluates, from `frames` to the end of its budget."""
    examiner, found = Examiner(config), []
    while True:
        if examiner.due(frames, last):
            found.append(last := frames)
        assert not examiner.due(frames, last)  # never twice
        if frames >= config.frames:
            return found
        frames += config.rollout_frames


def test_evaluations_come_after_every_so_many_frames_and_at_the_end() -> None:
    config = tiny(envs=8, frames=250, evaluation=EvaluationConfig(every=100))  # 64 per rollout
    assert evaluated_at(config, 0, 0) == [128, 256]
    assert evaluated_at(replace(config, frames=192), 0, 0) == [128, 192]
    assert evaluated_at(replace(config, frames=320), 0, 0) == [128, 256, 320]


def test_an_extended_run_is_not_evaluated_where_it_already_was() -> None:
    config = tiny(envs=8, frames=400, evaluation=EvaluationConfig(every=100))
    assert evaluated_at(config, 256, 256) == [320, 448]
    config = replace(config, evaluation=EvaluationConfig(every=10_000))
    assert evaluated_at(config, 256, 256) == [448]


class Late:
    """A stop that comes at the n-th look."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def check(self) -> None:
        self.looks -= 1
        if self.looks < 0:
            raise Interrupted(15)


class Notes:
    """Stands in for a run: keeps the rows that were written."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.metrics = self.episodes = self

    def write(self, row: dict[str, Any]) -> None:
        self.rows.append(row)


def test_an_interrupted_evaluation_leaves_no_trace() -> None:
    training, fresh = Training(tiny()), Training(tiny())
    training.frames = fresh.frames = 16
    run, undisturbed, patient = Notes(), Notes(), Late(100_000)
    judge: Callable[..., dict[str, float]] = loop.evaluate
    before = fresh.state_dict()
    judge(fresh, undisturbed, patient)
    looks = 100_000 - patient.looks

    for look in (0, looks // 3, looks - 1):  # at once; in between; in the last step of all
        with pytest.raises(Interrupted):
            judge(training, run, Late(look))
        assert run.rows == []
        assert equal(training.state_dict(), before)
    judge(training, run, Late(looks))
    assert run.rows == undisturbed.rows
    assert len(run.rows) == 17  # two splits of eight, and one row of metrics
    assert training.examined == 16


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, Tensor | np.ndarray):
        return bool((a == b).all())
    return bool(a == b)
