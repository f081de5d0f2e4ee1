"""Environments: the vector contract, level splits, exact save and restore, the door to others."""

import hashlib
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from crosstraj.envs import (
    GAMES,
    FrameStack,
    Levels,
    ProcgenConfig,
    ProcgenVectorEnv,
    check_envs,
    level_seeds,
    make_envs,
    savable,
    split_levels,
)
from crosstraj.envs.procgen import LEVEL_LIMIT
from crosstraj.envs.saved_games import State
from crosstraj.errors import BadInput

Array = npt.NDArray[Any]
EASY, HARD = ProcgenConfig(), ProcgenConfig(mode="hard")
BOTH_MODES = [pytest.param(EASY, id="easy"), pytest.param(HARD, id="hard")]
INFO = ("level_seed", "prev_level_seed", "prev_level_complete")


def procgen(
    game: str,
    count: int = 4,
    config: ProcgenConfig = EASY,
    levels: Levels | None = None,
    seed: int = 1,
    threads: int | None = None,
    copy: bool = True,
) -> ProcgenVectorEnv:
    levels = levels or split_levels(config, "train")
    return ProcgenVectorEnv(game, count, levels, config, seed, threads, copy)


def played(envs: VectorEnv[Any, Any, Any], steps: int, seed: int = 0) -> list[tuple[Array, ...]]:
    """Frames, reward, ends and level information of random play."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(steps):
        frames, reward, terminated, truncated, info = envs.step(rng.integers(0, 15, envs.num_envs))
        rows.append((frames.copy(), reward, terminated, truncated, *(info[key] for key in INFO)))
    return rows


def digest(rows: list[tuple[Array, ...]]) -> str:
    return hashlib.sha256(b"".join(array.tobytes() for row in rows for array in row)).hexdigest()


# ---- Procgen: the contract ----


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


# ---- Procgen: levels ----


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


# ---- Procgen: seeds, reset, save and restore ----


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
    command = [sys.executable, __file__, str(tmp_path)]
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


# ---- other environments, through Gymnasium's registry ----


class Clock(gymnasium.Env[Any, int]):
    """Shows the number of its episode and step; ends after 3 to 6 steps, at 5 by its time limit."""

    def __init__(self, space: gymnasium.Space[Any], actions: gymnasium.Space[Any]) -> None:
        self.observation_space, self.action_space = space, actions
        self.episode = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.episode = int(self.np_random.integers(16))
        self.episode += 1
        self.time, self.length = 0, int(self.np_random.integers(3, 7))
        return self.picture(self.observation_space), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time += 1
        ended = self.time >= self.length
        return self.picture(self.observation_space), float(action), ended, False, {}

    def picture(self, space: gymnasium.Space[Any]) -> Any:
        if isinstance(space, Dict):
            return {key: self.picture(part) for key, part in space.items()}
        assert isinstance(space, Box)
        return np.full(space.shape, 8 * self.episode % 256 + self.time, space.dtype)


IMAGE = Box(0, 255, (5, 4, 3), np.uint8)
GREY = Box(0, 255, (5, 4), np.uint8)
FLOAT = Box(0, 255, (5, 4, 3), np.float32)
FOUR = Discrete(4)
CLOCKS: dict[str, tuple[gymnasium.Space[Any], gymnasium.Space[Any]]] = {
    "Clock-v0": (IMAGE, FOUR),
    "GreyClock-v0": (GREY, FOUR),
    "DictClock-v0": (Dict({"picture": IMAGE, "grey": GREY, "float": FLOAT}), FOUR),
    "TwoClock-v0": (Dict({"left": IMAGE, "right": IMAGE}), FOUR),
    "FloatClock-v0": (FLOAT, FOUR),
    "TurnedClock-v0": (Box(0, 255, (3, 8, 8), np.uint8), FOUR),
    "PushClock-v0": (IMAGE, Box(-1, 1, (2,), np.float32)),
    "LateClock-v0": (IMAGE, Discrete(4, start=1)),
}


def clock(**options: Any) -> Clock:
    return Clock(**options)


def lost_clock(**options: Any) -> Clock:
    raise gymnasium.error.DependencyNotInstalled("run `pip install clockwork`")


def next_step_clocks(**options: Any) -> VectorEnv[Any, Any, Any]:
    return SyncVectorEnv([lambda: Clock(IMAGE, FOUR)] * options["num_envs"])


# At import, as any package that brings environments does.
for name, (space, actions) in CLOCKS.items():
    options = {"space": space, "actions": actions}
    gymnasium.register(name, entry_point=clock, max_episode_steps=5, kwargs=options)
gymnasium.register("LostClock-v0", entry_point=lost_clock)
gymnasium.register("NextStepClock-v0", vector_entry_point=next_step_clocks)


def made(env: str, count: int = 3, **changes: Any) -> VectorEnv[Any, Any, Any]:
    arguments: dict[str, Any] = {"levels": "train", "procgen": EASY, "seed": 1} | changes
    return make_envs(env, count, **arguments)


DOORS = ["starpilot", "Clock-v0", "GreyClock-v0", "DictClock-v0", "ALE/Breakout-v5"]


@pytest.mark.parametrize("frame_stack", [1, 4])
@pytest.mark.parametrize("env", [*DOORS, "MiniGrid-Empty-5x5-v0"])
def test_what_comes_through_the_door_keeps_the_vector_contract(env: str, frame_stack: int) -> None:
    if env.startswith(("ALE", "MiniGrid")):
        pytest.importorskip("ale_py" if env.startswith("ALE") else "minigrid")
    envs = made(env, 2, frame_stack=frame_stack)
    check_envs(envs)
    assert envs.num_envs == 2
    height, width, channels = envs.single_observation_space.shape or ()
    assert envs.observation_space.shape == (2, height, width, channels)
    first, info = envs.reset(seed=3)
    assert envs.observation_space.contains(first)
    assert isinstance(info, dict)
    envs.action_space.seed(0)
    for _ in range(8):
        frames, reward, terminated, truncated, info = envs.step(envs.action_space.sample())
        assert envs.observation_space.contains(frames)
        assert reward.shape == terminated.shape == truncated.shape == (2,)
        assert terminated.dtype == truncated.dtype == np.bool_
        assert reward.dtype in (np.float32, np.float64)
    envs.close()
    assert envs.closed


def test_the_door_gives_procgen_its_levels_look_and_seed() -> None:
    config = ProcgenConfig(mode="hard", first_level=7, train_levels=3)
    seen = made("leaper", 30, procgen=config, seed=4)
    assert set(seen.reset()[1]["level_seed"].tolist()) == {7, 8, 9}
    same = procgen("leaper", 30, config, Levels(7, 3), seed=4)
    assert (seen.reset()[0] == same.reset()[0]).all()
    unseen = made("leaper", 30, procgen=config, levels="test")
    assert unseen.reset()[1]["level_seed"].min() > 9


@pytest.mark.parametrize("env", ["starpilot", "Clock-v0"])
def test_the_door_hands_out_copies_unless_asked_not_to(env: str) -> None:
    for copy in (True, False):
        envs = made(env, copy=copy)
        envs.reset()
        frames, later = (envs.step(np.zeros(3, int))[0] for _ in range(2))
        assert np.shares_memory(frames, later) == (not copy)


def test_an_atari_game_trains_by_its_gymnasium_name_with_or_without_its_module() -> None:
    pytest.importorskip("ale_py")
    frames = []
    for name in ("ALE/Pong-v5", "ale_py:ALE/Pong-v5"):
        envs = made(name)
        assert envs.single_observation_space.shape == (210, 160, 3)
        envs.reset()
        for _ in range(30):
            image, *_ = envs.step(np.full(3, 2))
        frames.append(image)
    assert frames[0].std() > 1
    assert (frames[0] == frames[1]).all()
    assert not savable(envs)


def test_minigrid_in_pixels_needs_only_a_registration() -> None:
    wrappers = pytest.importorskip("minigrid.wrappers")

    def pixels(**options: Any) -> Any:
        return wrappers.RGBImgPartialObsWrapper(
            gymnasium.make("MiniGrid-DoorKey-6x6-v0", **options)
        )

    gymnasium.register("PixelDoorKey-v0", entry_point=pixels)
    frames, _ = made("PixelDoorKey-v0").reset()
    assert frames.shape == (3, 56, 56, 3)
    assert len(np.unique(frames)) > 10


def test_the_image_of_a_dict_and_the_channel_of_a_grey_image_are_found() -> None:
    assert made("DictClock-v0").reset()[0].shape == (3, 5, 4, 3)
    envs = made("GreyClock-v0")
    assert (envs.reset()[0] == made("Clock-v0").reset()[0][..., :1]).all()
    finals = [envs.step(np.zeros(3, int))[4].get("final_obs") for _ in range(6)]
    shapes = {f.shape for final in finals if final is not None for f in final if f is not None}
    assert shapes == {(5, 4, 1)}


def test_gymnasium_environments_begin_at_their_seed_and_the_splits_differ() -> None:
    def first(env: str = "MiniGrid-MultiRoom-N4-S5-v1", **changes: Any) -> Array:
        frames: Array = made(env, 16, **changes).reset()[0]
        return frames

    pytest.importorskip("minigrid")
    assert (first() == first()).all()
    assert (first() != first(seed=2)).any()
    by_split = [first(levels=split).tobytes() for split in ("train", "test", "validation")]
    assert len(set(by_split)) == 3
    envs = made("Clock-v0")
    frames, _ = envs.reset()
    envs.step(np.zeros(3, int))
    assert (envs.reset()[0] == frames).all()
    assert (envs.reset(seed=1)[0] == frames).all()


def test_truncation_and_true_last_frames_pass_through() -> None:
    envs = made("Clock-v0")
    envs.reset()
    endings = set()
    for _ in range(60):
        _, _, terminated, truncated, info = envs.step(np.zeros(3, int))
        for row in np.flatnonzero(terminated | truncated):
            time = int(info["final_obs"][row][0, 0, 0]) % 8
            endings.add((time, bool(terminated[row]), bool(truncated[row])))
    assert endings == {(3, True, False), (4, True, False), (5, True, True), (5, False, True)}


def test_level_seeds_are_minus_one_where_an_environment_has_none() -> None:
    assert level_seeds(made("Clock-v0").reset()[1], 3).tolist() == [-1, -1, -1]
    levels = level_seeds({"level_seed": np.array([5, 7], np.int32)}, 2)
    assert levels.tolist() == [5, 7]
    assert levels.dtype == np.int64


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ("CartPole-v1", "uint8 images"),
        ("FloatClock-v0", "uint8 images"),
        ("TwoClock-v0", "exactly one image"),
        ("TurnedClock-v0", r"looks like \[C, H, W\]"),
        ("PushClock-v0", "Discrete actions"),
        ("LateClock-v0", "counted from 0"),
        ("NextStepClock-v0", "only SAME_STEP is understood"),
        ("LostClock-v0", "pip install clockwork"),
        ("Clok-v0", "did you mean 'Clock-v0'"),
        ("coinrn", "did you mean 'coinrun'"),
        ("Clock", "did you mean 'Clock-v0'"),
        ("no_such_module:Clock-v0", "pip install no_such_module"),
    ],
)
def test_what_cannot_be_trained_on_is_refused_with_a_sentence(env: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        made(env)


def test_a_missing_package_is_named_as_pip_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in gymnasium.registry if name.startswith("ALE/")]:
        monkeypatch.delitem(gymnasium.registry, name)
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(BadInput, match="pip install ale-py"):
        made("ALE/Pong-v5")


@pytest.mark.parametrize("changes", [{"count": 0}, {"frame_stack": 0}, {"seed": -1}], ids=str)
def test_counts_and_seeds_out_of_range_are_refused(changes: dict[str, int]) -> None:
    for env in ("starpilot", "Clock-v0"):
        with pytest.raises(BadInput, match=next(iter(changes))):
            made(env, **changes).reset()


# ---- frame stack ----


def slow_stacks(envs: VectorEnv[Any, Any, Any], depth: int, steps: int) -> list[list[Any]]:
    """Stacks and last stacks by lists of frames."""
    frames, _ = envs.reset()
    past = [[frame] * depth for frame in frames]
    rng, rows = np.random.default_rng(0), []
    for _ in range(steps):
        action = rng.integers(0, 4, envs.num_envs)
        frames, _, terminated, truncated, info = envs.step(action)
        finals: list[Any] = [None] * envs.num_envs
        for n, frame in enumerate(frames):
            if terminated[n] or truncated[n]:
                if "final_obs" in info:
                    finals[n] = np.concatenate([*past[n][1:], info["final_obs"][n]], axis=-1)
                past[n] = [frame] * depth
            else:
                past[n] = [*past[n][1:], frame]
        rows.append([np.stack([np.concatenate(p, axis=-1) for p in past]), finals])
    return rows


@pytest.mark.parametrize(("env", "steps"), [("Clock-v0", 60), ("bossfight", 150)])
def test_stacks_equal_a_slow_loop_also_where_episodes_end(env: str, steps: int) -> None:
    stacked = made(env, frame_stack=3)
    stacked.reset()
    rng, ends = np.random.default_rng(0), 0
    for expected, last in slow_stacks(made(env), 3, steps):
        frames, _, terminated, truncated, info = stacked.step(rng.integers(0, 4, 3))
        assert (frames == expected).all()
        ends += int((terminated | truncated).sum())
        assert ("final_obs" in info) == any(final is not None for final in last)
        for final, right in zip(info.get("final_obs", last), last, strict=True):
            assert (final is None) == (right is None)
            assert final is None or (final == right).all()
    assert ends > 3


def test_a_stack_begins_with_its_first_frame_and_stays_as_handed_out() -> None:
    envs = made("Clock-v0", frame_stack=4)
    single = made("Clock-v0").reset()[0]
    first, _ = envs.reset()
    assert (first == np.concatenate([single] * 4, axis=-1)).all()
    before = first.copy()
    envs.step(np.zeros(3, int))
    assert (first == before).all()


def test_stacks_are_saved_and_restored_with_their_environment() -> None:
    envs, other = made("starpilot", frame_stack=3), made("starpilot", frame_stack=3, seed=8)
    assert isinstance(envs, FrameStack)
    assert isinstance(other, FrameStack)
    assert savable(envs)
    envs.reset(), other.reset()
    played(envs, 20), played(other, 10)
    frames, info = other.set_state(envs.get_state())
    assert (frames == envs.observation).all()
    assert (other.observation == envs.observation).all()
    rows = played(envs, 40)
    assert (info["level_seed"] == rows[0][5]).all()
    assert digest(played(other, 40)) == digest(rows)


def test_a_stack_refuses_what_it_cannot_do() -> None:
    clock = made("Clock-v0")
    with pytest.raises(BadInput, match="depth=1"):
        FrameStack(clock, 1)
    with pytest.raises(BadInput, match="SAME_STEP"):
        FrameStack(next_step_clocks(num_envs=2), 2)
    with pytest.raises(BadInput, match="cannot be saved"):
        FrameStack(clock, 2).get_state()
    assert not savable(FrameStack(clock, 2))
    state = made("starpilot", frame_stack=2).get_state()  # type: ignore[attr-defined]
    with pytest.raises(BadInput, match="no stack of 3 frames"):
        made("starpilot", frame_stack=3).set_state(state)  # type: ignore[attr-defined]


def test_one_frame_is_not_wrapped() -> None:
    assert isinstance(made("starpilot", frame_stack=1), ProcgenVectorEnv)


# ---- imports ----


def test_importing_the_package_loads_neither_torch_nor_the_engine() -> None:
    heavy = "{'torch', 'procgen', 'gym3', 'gym'}"
    code = f"import sys, crosstraj.envs; print({heavy} & set(sys.modules) or 'light')"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "light"


if __name__ == "__main__":
    print(json.dumps(continue_saved(Path(sys.argv[1]))))
