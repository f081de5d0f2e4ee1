"""Reset seeds as levels: the split, the stream of levels, its record, saving, and refusals."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from crosstraj.cli.main import main
from crosstraj.data.collect import Collector
from crosstraj.data.rollout import Decision
from crosstraj.envs import GymnasiumConfig, savable
from crosstraj.envs.levels import Levels, split_levels
from crosstraj.envs.reset_seeds import LIMIT, drawn_level
from crosstraj.errors import BadInput
from crosstraj.learning.evaluation import Pool, evaluate
from crosstraj.objectives.base import Objective
from tests.envs.corridors import Corridor, digest, levels_played, made, shown_seed

ROOMS = "crosstraj/MiniGrid-MultiRoom-N2-S4-v0"


# ---- episodes ----


def slow_play(rows: int, steps: int, seed: int) -> list[tuple[Any, ...]]:
    """Frames, ends, levels before and after, and last frames, one environment after the other."""
    number = 0

    def draw() -> int:
        nonlocal number
        number += 1
        return drawn_level(Levels(0, 5), seed, number - 1)

    envs, level = [Corridor() for _ in range(rows)], [draw() for _ in range(rows)]
    frames = [env.reset(seed=now)[0] for env, now in zip(envs, level, strict=True)]
    rng, found = np.random.default_rng(0), []
    for _ in range(steps):
        before, finals, ends = level.copy(), [None] * rows, []
        for row, action in enumerate(rng.integers(0, 3, rows)):
            frames[row], _, ended, late, _ = envs[row].step(int(action))
            ends.append((ended, late))
        for row in range(rows):
            if any(ends[row]):
                finals[row] = frames[row]
                level[row] = draw()
                frames[row] = envs[row].reset(seed=level[row])[0]
        found.append((np.stack(frames), ends, before, level.copy(), finals))
    return found


@pytest.mark.parametrize(("processes", "copy"), [(False, False), (False, True), (True, False)])
def test_levels_equal_a_slow_loop_with_episode_ends_everywhere(processes: bool, copy: bool) -> None:
    with made(processes=processes, copy=copy) as envs:
        assert isinstance(envs.unwrapped, AsyncVectorEnv if processes else SyncVectorEnv)
        frames, info = envs.reset()
        assert [shown_seed(frame) for frame in frames] == info["level_seed"].tolist()
        rng, together = np.random.default_rng(0), set()
        for expected, ends, before, after, finals in slow_play(3, 60, seed=1):
            frames, _, terminated, truncated, info = envs.step(rng.integers(0, 3, 3))
            assert (frames == expected).all()
            assert list(zip(terminated, truncated, strict=True)) == ends
            assert info["prev_level_seed"].tolist() == before
            assert info["level_seed"].tolist() == after
            assert ("final_obs" in info) == any(final is not None for final in finals)
            for mine, right in zip(info.get("final_obs", finals), finals, strict=True):
                assert (mine is None) == (right is None)
                assert right is None or (mine == right).all()
            together.add(tuple((terminated | truncated).tolist()))
        assert len(together) == 8  # ends in every row, alone and together


def test_levels_are_begun_in_the_order_in_which_they_are_chosen() -> None:
    wanted = np.random.default_rng(5).integers(0, 5, 400).tolist()
    left = iter(wanted)
    with made(next_level=lambda: next(left)) as envs:
        frames, info = envs.reset()
        begun, rng = info["level_seed"].tolist(), np.random.default_rng(0)
        for _ in range(60):
            frames, _, terminated, truncated, info = envs.step(rng.integers(0, 3, 3))
            begun += info["level_seed"][terminated | truncated].tolist()
            assert [shown_seed(frame) for frame in frames] == info["level_seed"].tolist()
    assert begun == wanted[: len(begun)]
    assert len(begun) > 60
    alone = made(next_level=lambda: 0, gymnasium=GymnasiumConfig())
    with pytest.raises(BadInput, match="has no levels to choose from"), alone:
        pass


class Random:
    """An actor that draws its actions."""

    memory = 0

    def act(
        self, frames: torch.Tensor, context: torch.Tensor, rng: torch.Generator, **_: Any
    ) -> Decision:
        n = len(frames)
        action = torch.randint(0, 3, (n,), generator=rng)
        return Decision(action, torch.zeros(n), *self.judge(frames, context))

    def judge(
        self, frames: torch.Tensor, context: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return frames[:, 1, 1, -1].float(), torch.zeros(len(frames), 4)


def collector(envs: Any, steps: int) -> Collector:
    rng = torch.Generator().manual_seed(0)
    return Collector(envs, steps, 4, Objective(), 0, rng, torch.device("cpu"))


@pytest.mark.parametrize("frame_stack", [1, 3])
def test_every_step_of_a_rollout_has_the_level_of_its_frame(frame_stack: int) -> None:
    with made(count=4, frame_stack=frame_stack) as envs:
        played, ends = collector(envs, 5), torch.zeros(5, dtype=torch.bool)
        for _ in range(12):
            rollout = played.collect(Random())
            shown = [[shown_seed(frame.numpy()) for frame in row] for row in rollout.obs[:-1]]
            assert rollout.level.tolist() == shown
            ends |= rollout.done.any(1)
        assert ends.all()  # the last step of a rollout, and the first, among them


@pytest.mark.parametrize("processes", [False, True])
def test_no_training_seed_of_minigrid_is_ever_played_in_evaluation(processes: bool) -> None:
    pytest.importorskip("minigrid")
    levels: dict[str, set[int]] = {}
    for split in ("train", "test", "validation"):
        with made(ROOMS, 3, levels=split, processes=processes) as envs:
            pool = Pool(envs, seed=2)
            rng = torch.Generator().manual_seed(0)
            episodes = evaluate(pool, Random(), Objective(), 6, rng)
        assert len(episodes) == 6
        levels[split] = {episode.level for episode in episodes}
    assert levels["train"] <= set(range(5))
    assert all(5 <= level < LIMIT for level in levels["test"])
    end = split_levels(GymnasiumConfig(), "validation").stop
    assert all(LIMIT <= level < end for level in levels["validation"])
    assert len(levels["test"]) == len(levels["validation"]) == 6


def test_every_evaluation_plays_the_same_levels() -> None:
    with made(levels="test") as envs:
        pool = Pool(envs, seed=2)
        first, again, other = (
            evaluate(pool, Random(), Objective(), 9, torch.Generator().manual_seed(seed))
            for seed in (0, 0, 1)
        )
    assert first == again
    assert first != other  # by their actions
    assert {episode.level for episode in first} == {episode.level for episode in other}
    assert len({episode.level for episode in first}) == 9


def test_a_level_of_minigrid_is_what_gymnasium_begins_with_that_seed() -> None:
    pytest.importorskip("minigrid")
    with made(ROOMS, 3) as envs:
        frames, info = envs.reset()
        firsts = [(frames[row].copy(), int(info["level_seed"][row])) for row in range(3)]
        for _ in range(130):
            frames, _, terminated, truncated, info = envs.step(np.full(3, 2))
            for row in np.flatnonzero(terminated | truncated):
                firsts.append((frames[row].copy(), int(info["level_seed"][row])))
    alone = gymnasium.make(f"crosstraj.envs.minigrid_pixels:{ROOMS}")
    assert len(firsts) > 8
    for frame, level in firsts:
        assert frame.shape == (64, 64, 3)
        assert (alone.reset(seed=level)[0]["image"] == frame).all()


# ---- saving ----


@pytest.mark.parametrize("env", ["Corridor-v0", ROOMS])
@pytest.mark.parametrize("frame_stack", [1, 2])
def test_play_goes_on_where_it_was_saved_at_every_moment(env: str, frame_stack: int) -> None:
    if env == ROOMS:
        pytest.importorskip("minigrid")
    moments = range(12) if env == "Corridor-v0" else (0, 5, 43)
    with made(env, frame_stack=frame_stack) as envs, made(env, frame_stack=frame_stack) as other:
        assert savable(envs)
        for moment in moments:
            envs.reset(seed=4)
            digest(envs, moment, seed=0)
            state = {key: array.copy() for key, array in envs.get_state().items()}
            before = envs.get_state()
            expected = digest(envs, 20, seed=1)
            other.reset(seed=9)
            frames, info = other.set_state(state)
            assert "new_episodes" not in info
            assert (frames[..., -3:] == state["frames"]).all()
            assert info["level_seed"].tolist() == state["levels"].tolist()
            after = other.get_state()
            assert all((after[key] == before[key]).all() for key in before)
            assert digest(other, 20, seed=1) == expected


def test_processes_are_saved_and_restored_too() -> None:
    with made(processes=True) as envs, made() as other:
        envs.reset(seed=4)
        digest(envs, 7, seed=0)
        state = envs.get_state()
        expected = digest(envs, 20, seed=1)
        other.reset()
        other.set_state(state)
        assert digest(other, 20, seed=1) == expected
        envs.set_state(state)
        assert digest(envs, 20, seed=1) == expected


@pytest.mark.parametrize("frame_stack", [1, 2])
def test_what_cannot_be_repeated_begins_the_next_levels_of_the_stream(frame_stack: int) -> None:
    with made("Restless-v0", 2, frame_stack=frame_stack) as envs:
        played = collector(envs, 4)
        while not all(envs.get_state()["lengths"]):  # both in the midst of an episode
            played.collect(Random())
        saved = played.state_dict()
        seed, drawn = saved["envs"]["stream"].tolist()
        arrays = {name: torch.from_numpy(array) for name, array in saved["envs"].items()}
        played.load_state_dict(saved | {"envs": arrays})
        assert not played.continued
        nexts = [drawn_level(Levels(0, 5), seed, drawn + n) for n in range(2)]
        assert played.level.tolist() == nexts
        assert [shown_seed(frame.numpy()) for frame in played.rollout.obs[-1]] == nexts
        assert played.rollout.obs[-1][:, 1, 0].sum() == 0  # at time 0, in every frame of a stack
        assert played.episode_return.tolist() == [0, 0]


def test_a_state_that_does_not_fit_is_refused_and_changes_nothing() -> None:
    with made() as envs, made(count=2) as fewer, made(levels="test") as others:
        envs.reset()
        digest(envs, 6, seed=0)
        state = envs.get_state()
        fewer.reset(), others.reset()
        wrong = [
            fewer.get_state(),
            others.get_state(),
            {key: state[key] for key in state if key != "stream"},
            state | {"actions": state["actions"] + 3},
            state | {"lengths": state["lengths"] + 1},
            state | {"levels": state["levels"].astype(np.int32)},
        ]
        for bad in wrong:
            with pytest.raises(BadInput, match="does not fit 3 environments"):
                envs.set_state(bad)
        after = envs.get_state()
        assert all((after[key] == state[key]).all() for key in state)


def test_equal_seeds_give_equal_levels_in_a_new_process() -> None:
    code = "import json, tests.envs.test_level_envs as t; print(json.dumps(t.levels_played()))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert json.loads(result.stdout) == levels_played()


# ---- refusals ----


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ("Deaf-v0", "two resets with seed 0 begin with different frames"),
        ("Same-v0", "all begin with the same frame"),
        ("MiniGrid-Empty-5x5-v0", "all begin with the same frame"),
        ("Corridors-v0", "one vector environment"),
        ("CartPole-v1", "uint8 images"),
        ("crosstraj/Procgen-coinrun-v0", "use --env coinrun"),
    ],
)
def test_an_environment_without_levels_is_refused_before_anything_is_written(
    env: str, words: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if env.startswith("MiniGrid"):
        pytest.importorskip("minigrid")
    command = ["train", "--env", env, "--levels", "5", "--saving.runs", str(tmp_path / "runs")]
    assert main(command) == 2
    said = capfd.readouterr().err.strip()
    assert words in said
    assert "\n" not in said
    assert not (tmp_path / "runs").exists()


def test_seeds_that_begin_alike_by_chance_are_no_reason_to_refuse() -> None:
    with made("Alike-v0") as envs:
        envs.reset()
    with made("Alike-v0", gymnasium=GymnasiumConfig(train_levels=1)) as envs:
        assert envs.reset()[1]["level_seed"].tolist() == [0, 0, 0]


def test_resets_of_some_environments_only_and_negative_seeds_are_refused() -> None:
    with made() as envs:
        with pytest.raises(BadInput, match="reset_mask"):
            envs.reset(options={"reset_mask": np.ones(3, bool)})
        with pytest.raises(BadInput, match="seed=-1"):
            envs.reset(seed=-1)


# ---- Gymnasium's own door ----


def test_the_environment_of_the_docs_has_levels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("minigrid")
    code = Path("docs/environments.md").read_text().split("```python\n")[1].split("```")[0]
    (tmp_path / "grids.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with made("grids:WholeDoorKey-v0") as envs:
        frames, info = envs.reset()
    assert frames.shape == (3, 64, 64, 3)
    assert set(info["level_seed"].tolist()) <= set(range(5))


PLAIN = """
import sys, gymnasium, numpy as np
ising = gymnasium.make("crosstraj.envs:crosstraj/Ising-v0")
frame, _ = ising.reset(seed=0)
games = gymnasium.make_vec(
    "crosstraj.envs:crosstraj/Procgen-coinrun-v0", num_envs=3, levels="test", train_levels=9, seed=2
)
frames, info = games.reset()
games.step(np.zeros(3, int))
names = [name for name in gymnasium.registry if name.startswith("crosstraj/Procgen-")]
print(frame.shape, frames.shape, len(names), info["level_seed"].min() >= 9, "torch" in sys.modules)
"""


def test_gymnasium_finds_our_environments_by_the_name_of_their_module() -> None:
    result = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", PLAIN],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert result.stdout.split("\n")[0] == "(32, 32, 1) (3, 64, 64, 3) 16 True False"
