"""The levels of a run: which it trains on, and what about them does not go together."""

from crosstraj.data.level_replay import LARGEST, ReplayConfig
from crosstraj.envs import (
    GAMES,
    NAMES,
    GymnasiumConfig,
    Levels,
    ProcgenConfig,
    check_mode,
    split_levels,
)
from crosstraj.errors import BadInput


def levels_of(env: str, procgen: ProcgenConfig, gymnasium: GymnasiumConfig) -> Levels:
    """The training levels; none where the environment keeps none apart."""
    return split_levels(procgen if env in GAMES else gymnasium, "train")


def check_levels(
    env: str, procgen: ProcgenConfig, gymnasium: GymnasiumConfig, replay: ReplayConfig
) -> None:
    if env in GAMES:
        check_mode(env, procgen)
    if env in NAMES and gymnasium != GymnasiumConfig():
        raise BadInput(
            f"gymnasium.train_levels={gymnasium.train_levels} and gymnasium.first_level="
            f"{gymnasium.first_level} are for Gymnasium ids, and env={env} is none; "
            "Procgen has procgen.train_levels, and ising goals (ising.instance)"
        )
    if replay.levels:
        _check_replay(env, procgen, levels_of(env, procgen, gymnasium).count)


def _check_replay(env: str, procgen: ProcgenConfig, count: int) -> None:
    why = "replay.levels=True chooses among training levels, "
    if env == "ising":
        raise BadInput(f"{why}and ising has none; leave it out")
    if count == 0:
        raise BadInput(
            f"{why}and {env} has none without gymnasium.train_levels; add it (--levels 200)"
        )
    if count > LARGEST:
        raise BadInput(f"{why}and keeps account of {LARGEST} at most, not of {count}; lower them")
    if env in GAMES and procgen.use_generated_assets:
        raise BadInput(
            f"{why}for which games are saved, and procgen.use_generated_assets=True cannot be; "
            "leave out one of them"
        )
