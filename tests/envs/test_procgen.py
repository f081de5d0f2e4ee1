"""Procgen: the vector contract, level splits, exact save and restore."""

import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from crosstraj.envs import (
    GAMES,
    FrameStack,
    Levels,
    ProcgenConfig,
    ProcgenVectorEnv,
    savable,
    split_levels,
)
from crosstraj.envs.procgen import LEVEL_LIMIT, MEMORY_GAMES
from crosstraj.envs.saved_games import State
from crosstraj.errors import BadInput
from tests.envs.games import EASY, HARD, INFO, digest, played, procgen

BOTH_MODES = [pytest.param(EASY, id="easy"), pytest.param(HARD, id="hard")]


# ---- the contract ----


@pytest.mark.parametrize("config", BOTH_MODES)
@pytest.mark.parametrize("game", GAMES)
def test_every_game_plays_in_both_modes(game: str, config: ProcgenConfig) -> None:
    envs = procgen(game, 3, config)
    first, info = envs.reset()
    assert first.shape == (3, 64, 64, 3)
    assert first.std() > 1  # a picture, not an empty buffer
    rows = played(envs, 20)
    assert any((row[0] != first).any() for row in rows)
    assert all(level in range(200) for level in info["level_seed"])


@pytest.mark.parametrize("game", MEMORY_GAMES)
def test_memory_mode_has_levels_of_its_own_and_resumes(game: str) -> None:
    mode = ProcgenConfig(mode="memory")
    envs = procgen(game, 3, mode)
    assert (envs.reset()[0] != procgen(game, 3, EASY).reset()[0]).any()
    played(envs, 5)
    state = envs.get_state()
    expected = digest(played(envs, 10))
    envs.set_state(state)
    assert digest(played(envs, 10)) == expected


def test_easy_and_hard_levels_differ() -> None:
    assert (
        procgen("maze", config=EASY).reset()[0] != procgen("maze", config=HARD).reset()[0]
    ).any()


@pytest.mark.parametrize(
    "look",
    [
        {"center_agent": False},
        {"use_backgrounds": False},
        {"use_monochrome_assets": True},
        {"restrict_themes": True},
        {"use_generated_assets": True},
        {"paint_vel_info": True},
    ],
    ids=str,
)
def test_each_look_option_reaches_the_engine(look: dict[str, bool]) -> None:
    plain, changed = procgen("coinrun"), procgen("coinrun", config=ProcgenConfig(**look))  # type: ignore[arg-type]  # all are bool
    played(plain, 5), played(changed, 5)
    assert (plain.observation != changed.observation).any()


def test_the_next_episode_begins_in_the_same_step_and_there_is_no_final_observation() -> None:
    envs = procgen("bossfight", 8)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    _, info = envs.reset()
    assert set(info) == {"level_seed"}
    ends = 0
    for _ in range(150):
        _, _, terminated, truncated, info = envs.step(np.full(8, 4))
        assert set(info) == set(INFO)  # above all no final_obs, at an end either
        assert not truncated.any()
        ends += int(terminated.sum())
    assert ends > 0


def test_level_seed_is_of_the_returned_frame_and_prev_level_seed_of_the_action() -> None:
    envs = procgen("bossfight", 8, levels=Levels(0, 3))
    first_frame = {level: procgen("bossfight", 1, levels=Levels(level, 1)).reset()[0][0]
                   for level in range(3)}  # fmt: skip
    level = envs.reset()[1]["level_seed"]
    seen, changed = set(), 0
    for frames, _, terminated, _, new_level, old_level, _ in played(envs, 200):
        assert (old_level == level).all()
        assert (new_level == level)[~terminated].all()
        for row in np.flatnonzero(terminated):
            assert (frames[row] == first_frame[int(new_level[row])]).all()
            seen.add(int(new_level[row]))
            changed += new_level[row] != old_level[row]
        level = new_level
    assert seen == {0, 1, 2}
    assert changed > 0


def test_a_level_is_complete_when_the_goal_was_reached_and_a_time_out_is_terminated() -> None:
    """A maze gives 10 at its goal, and otherwise ends only when its 500 steps are over."""
    envs = procgen("maze", 16)
    length, outcomes = np.zeros(16, int), set()
    for _, reward, terminated, truncated, _, _, complete in played(envs, 520):
        length += 1
        assert (complete == (reward == 10)).all()
        assert (terminated == (complete | (length == 500))).all()
        assert not truncated.any()
        outcomes |= set(complete[terminated].tolist())
        length[terminated] = 0
    assert outcomes == {True, False}


def test_frames_are_copied_unless_asked_not_to() -> None:
    envs = procgen("starpilot", copy=True)
    first = envs.reset()[0]
    before = first.copy()
    later = played(envs, 10)[-1][0]
    assert (first == before).all()
    assert (later != before).any()


def test_without_copy_every_call_hands_out_the_one_buffer_of_the_engine() -> None:
    envs = procgen("starpilot", copy=False)
    first = envs.reset()[0]
    before = first.copy()
    for _ in range(10):
        frames = envs.step(np.full(4, 7))[0]
        assert frames is first
        assert frames is envs._engine.frames
    assert (first != before).any()
    assert envs.set_state(envs.get_state())[0] is first
    assert envs.reset()[0] is first
    assert (first == before).all()


def test_only_frames_are_ever_shared() -> None:
    envs = procgen("starpilot", copy=False)
    _, *earlier, info = envs.step(np.full(4, 7))
    _, *later, new_info = envs.step(np.full(4, 7))
    pairs = [*zip(earlier, later, strict=True), *((info[key], new_info[key]) for key in INFO)]
    assert not any(np.shares_memory(old, new) for old, new in pairs)


# ---- levels ----


def test_training_sees_all_its_levels_and_no_other() -> None:
    level = procgen("leaper", 600).reset()[1]["level_seed"]
    assert set(level.tolist()) <= set(range(200))
    assert len(set(level.tolist())) >= 180  # 600 draws of 200 miss 10 on average


def test_testing_never_sees_a_training_level() -> None:
    config = ProcgenConfig(first_level=10, train_levels=2**30)
    envs = procgen("leaper", 300, config, split_levels(config, "test"))
    level = envs.reset()[1]["level_seed"]
    assert level.dtype == np.int64
    assert level.min() >= 10 + 2**30
    assert level.max() < LEVEL_LIMIT
    assert level.max() - level.min() > 2**29  # spread over the whole range, no overflow at its end


def test_the_split_of_the_benchmark() -> None:
    assert split_levels(EASY, "train") == (0, 200)
    assert split_levels(EASY, "test") == (200, 2**31 - 1 - 200)


def test_the_split_holds_over_many_episodes() -> None:
    for split, inside in (("train", True), ("test", False)):
        levels = split_levels(EASY, split)  # type: ignore[arg-type]  # one of the two
        rows = played(procgen("bossfight", 8, levels=levels), 200)
        seeds = np.concatenate([row[4] for row in rows])
        assert len(np.unique(seeds)) > 20
        assert ((seeds < 200) == inside).all()


def test_the_last_levels_can_be_played() -> None:
    envs = procgen("leaper", 50, levels=Levels(LEVEL_LIMIT - 3, 3))
    assert set(envs.reset()[1]["level_seed"].tolist()) == {LEVEL_LIMIT - n for n in (1, 2, 3)}


def test_validation_levels_are_above_all_others_whatever_one_trains_on() -> None:
    """Training and testing end at LEVEL_LIMIT at most, which is where validation begins."""
    first = split_levels(EASY, "validation")
    assert first == (2**31 - 1, 2**20)
    for config in (EASY, ProcgenConfig(first_level=LEVEL_LIMIT - 3, train_levels=2)):
        assert split_levels(config, "validation") == first
        for split in ("train", "test"):
            assert split_levels(config, split).stop <= first.first  # type: ignore[arg-type]


@pytest.mark.parametrize("game", ["bossfight", "leaper"])
def test_the_engine_plays_validation_levels_and_no_other(game: str) -> None:
    """Their numbers are above its int32: it must neither stop nor begin again at 0."""
    levels = split_levels(EASY, "validation")
    rows = played(procgen(game, 32, levels=levels), 200)
    now, before = (np.concatenate([row[place] for row in rows]) for place in (4, 5))
    for seeds in (now, before):
        assert len(np.unique(seeds)) > 40
        assert levels.first <= seeds.min()
        assert seeds.max() < levels.stop
        assert seeds.max() - seeds.min() > levels.count // 2  # spread over the whole range


def test_a_validation_level_is_a_level_of_its_own_and_begins_alike_each_time() -> None:
    """The engine's generator takes the number as it is: one more is another level."""
    validation = split_levels(EASY, "validation")
    frames, info = procgen("leaper", 200, levels=validation).reset()
    again, told = procgen("leaper", 200, levels=validation, threads=0).reset()
    assert (info["level_seed"] == told["level_seed"]).all()
    assert (frames == again).all()
    levels = len(np.unique(info["level_seed"]))
    assert len({frame.tobytes() for frame in frames}) > 0.9 * levels > 150


def test_validation_levels_can_be_saved_and_restored() -> None:
    envs = procgen("leaper", 4, levels=split_levels(EASY, "validation"))
    state = envs.get_state()
    first = digest(played(envs, 60))
    envs.set_state(state)
    assert digest(played(envs, 60)) == first


# ---- seeds, reset, save and restore ----


def test_play_depends_on_the_seed_and_not_on_threads() -> None:
    runs = [procgen("coinrun", 32, threads=threads) for threads in (0, 1, 4, 4)]
    first, *others = (digest(played(envs, 60)) for envs in runs)
    assert set(others) == {first}
    assert digest(played(procgen("coinrun", 32, seed=2), 60)) != first


def test_global_generators_are_left_alone() -> None:
    before = random.getstate(), str(np.random.get_state())  # noqa: NPY002
    envs = procgen("coinrun")
    envs.reset(seed=5)
    envs.step(np.zeros(4, int))
    envs.set_state(envs.get_state())
    assert before == (random.getstate(), str(np.random.get_state()))  # noqa: NPY002


@pytest.mark.parametrize("config", [EASY, ProcgenConfig(use_generated_assets=True)])
def test_reset_goes_back_to_the_first_state_of_the_seed(config: ProcgenConfig) -> None:
    envs = procgen("caveflyer", config=config)
    first, info = envs.reset()
    run = digest(played(envs, 60))
    again, same_info = envs.reset()
    assert (again == first).all()
    assert (same_info["level_seed"] == info["level_seed"]).all()
    assert digest(played(envs, 60)) == run
    assert (envs.reset(seed=1)[0] == first).all()


def test_reset_with_another_seed_is_a_new_environment_of_that_seed() -> None:
    envs, other = procgen("caveflyer", seed=1), procgen("caveflyer", seed=2)
    played(envs, 10)
    frames, _ = envs.reset(seed=2)
    assert (frames == other.reset()[0]).all()
    expected = digest(played(other, 60))
    assert digest(played(envs, 60)) == expected
    envs.reset()  # goes back to the last seed given
    assert digest(played(envs, 60)) == expected


@pytest.mark.parametrize("config", BOTH_MODES)
@pytest.mark.parametrize("game", GAMES)
def test_play_after_restoring_is_equal(game: str, config: ProcgenConfig) -> None:
    """Into an environment of another seed and thread count which has played other levels."""
    envs, other = procgen(game, config=config), procgen(game, config=config, seed=9, threads=2)
    played(envs, 50)
    last = played(other, 30, seed=3)[-1][0]
    assert (last != envs.observation).any()
    state = envs.get_state()
    frames, info = other.set_state(state)
    assert (frames == envs.observation).all()
    assert (other.observation == envs.observation).all()
    rows = played(envs, 60, seed=7)
    assert (info["level_seed"] == rows[0][5]).all()
    for row, same in zip(rows, played(other, 60, seed=7), strict=True):
        assert all((a == b).all() and a.dtype == b.dtype for a, b in zip(row, same, strict=True))


def test_a_state_is_plain_arrays_and_saving_changes_nothing() -> None:
    envs, unsaved = procgen("starpilot"), procgen("starpilot")
    played(envs, 20), played(unsaved, 20)
    state = envs.get_state()
    assert all(type(array) is np.ndarray and array.dtype != object for array in state.values())
    kept = {key: array.copy() for key, array in state.items()}
    assert digest(played(envs, 50)) == digest(played(unsaved, 50))
    assert all((state[key] == kept[key]).all() for key in kept)


def test_the_restored_frame_is_the_saved_one_and_not_a_new_drawing() -> None:
    envs = procgen("starpilot")
    state = envs.get_state()
    state["frames"] = 255 - state["frames"]  # as if drawn by another graphics library
    assert (envs.set_state(state)[0] == state["frames"]).all()


def test_play_after_restoring_in_a_new_process_is_equal(tmp_path: Path) -> None:
    expected = {}
    for game in GAMES:
        envs = procgen(game, 2, HARD)
        played(envs, 40)
        state = envs.get_state()
        expected[game] = [digest([(envs.observation,)]), digest(played(envs, 80, seed=5))]
        np.savez(tmp_path / game, **state)
    command = [sys.executable, "-m", "tests.envs.test_procgen", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(result.stdout) == expected


def continue_saved(folder: Path) -> dict[str, list[str]]:
    """What the new process of the test above does."""
    digests = {}
    for game in GAMES:
        with np.load(folder / f"{game}.npz", allow_pickle=False) as state:
            envs = procgen(game, 2, HARD, seed=77)
            envs.set_state(dict(state))
        digests[game] = [digest([(envs.observation,)]), digest(played(envs, 80, seed=5))]
    return digests


def test_generated_pictures_cannot_be_saved_and_say_so() -> None:
    """The engine itself would end the process."""
    envs = procgen("coinrun", config=ProcgenConfig(use_generated_assets=True))
    assert not savable(envs)
    assert not savable(FrameStack(envs, 2))
    with pytest.raises(BadInput, match="use_generated_assets=True"):
        envs.get_state()


def shortened(state: State) -> State:
    return {**state, "games": state["games"][:-8], "lengths": state["lengths"] - [0, 0, 0, 8]}


@pytest.mark.parametrize(
    ("source", "change"),
    [
        (lambda: procgen("maze"), lambda state: state),
        (lambda: procgen("coinrun", config=HARD), lambda state: state),
        (lambda: procgen("coinrun", 3), lambda state: state),
        (lambda: procgen("coinrun", levels=split_levels(EASY, "test")), lambda state: state),
        (lambda: procgen("coinrun", config=ProcgenConfig(use_backgrounds=False)), lambda s: s),
        (lambda: procgen("coinrun"), lambda state: {"games": state["games"]}),
        (lambda: procgen("coinrun"), lambda state: {**state, "games": state["games"][:-1]}),
        (lambda: procgen("coinrun"), shortened),
    ],
    ids=["game", "mode", "count", "levels", "look", "keys", "bytes", "end"],
)
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(
    source: Callable[[], ProcgenVectorEnv], change: Callable[[State], State]
) -> None:
    """Most of these would end the process inside the engine; other levels would pass unseen."""
    envs = procgen("coinrun")
    state = change(source().get_state())
    with pytest.raises(BadInput, match="same settings"):
        envs.set_state(state)
    assert digest(played(envs, 5)) == digest(played(procgen("coinrun"), 5))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: ProcgenConfig(train_levels=0), "train_levels=0"),
        (lambda: ProcgenConfig(first_level=-1), "first_level=-1"),
        (lambda: ProcgenConfig(first_level=2**31 - 201), "must stay below 2147483647"),
        (lambda: ProcgenConfig(mode="heavy"), "unknown Procgen mode 'heavy'"),  # type: ignore[arg-type]
        (lambda: procgen("coinrun", config=ProcgenConfig(mode="memory")), "is not for coinrun"),
        (lambda: procgen("coinrum"), "did you mean 'coinrun'"),
        (lambda: procgen("coinrun", 0), "num_envs=0"),
        (lambda: procgen("coinrun", threads=-1), "threads=-1"),
        (lambda: procgen("coinrun", levels=Levels(5, 0)), "at least one level"),
        (lambda: procgen("coinrun", levels=Levels(5, 2**31 - 5)), "between 0 and 2147483646"),
        (lambda: procgen("coinrun", seed=2**31), "seed=2147483648"),
        (lambda: procgen("coinrun").reset(seed=-1), "seed=-1"),
        (lambda: procgen("coinrun").reset(options={"reset_mask": np.ones(4, bool)}), "reset_mask"),
        (lambda: procgen("coinrun").step(np.array([0, 0, 0, -1])), "0 to 14"),
        (lambda: procgen("coinrun").step(np.array([0, 0, 0, 15])), "0 to 14"),
        (lambda: procgen("coinrun").step(np.zeros(3, int)), "4 numbers"),
    ],
)
def test_nonsense_is_refused_with_a_sentence(wrong: Callable[[], object], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        wrong()


def test_the_largest_configurations_are_accepted() -> None:
    assert split_levels(ProcgenConfig(first_level=2**31 - 202), "test") == (2**31 - 2, 1)
    procgen("leaper", 1, seed=2**31 - 1)


if __name__ == "__main__":
    print(json.dumps(continue_saved(Path(sys.argv[1]))))
