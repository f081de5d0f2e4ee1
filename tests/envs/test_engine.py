"""The engine: the numbers of its former adapter, nothing of its Python layers, words for faults."""

import ast
import hashlib
import subprocess
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from crosstraj.envs import GAMES, ProcgenConfig, ProcgenVectorEnv, split_levels
from crosstraj.envs.engine import OPTIONS, Engine, Value
from crosstraj.envs.load_engine import installed
from crosstraj.errors import BadInput

Array = npt.NDArray[Any]

# What the engine's own Python (procgen-mirror 0.10.7 by way of gym3 0.3.3 and numpy 1.26.4) gave in
# 200 steps of 8 games, easy ones on training levels and hard ones on test levels: the beginnings of
# the SHA-256 of frames, of rewards, ends and levels, and of every fiftieth state; and the ends.
PLAYED = {
    ("easy", "bigfish"): ("256c2377cbd4", "3cadc04758bd", "3a38a1ff69ba", 12),
    ("easy", "bossfight"): ("03a16dcb882b", "9850b66d900f", "0db2f12cd01a", 35),
    ("easy", "caveflyer"): ("c9bbf44b4ec0", "c8aa7d6daccc", "cfbca3c52595", 3),
    ("easy", "chaser"): ("a7510814d8c7", "5113954ec5eb", "ac9b0a71fe19", 10),
    ("easy", "climber"): ("de8152be9b14", "abf90ce81415", "31be23fa1d71", 1),
    ("easy", "coinrun"): ("69e8caf4e530", "f23fb74cb86d", "8b808288224b", 0),
    ("easy", "dodgeball"): ("19a16fb53788", "5595146caa7e", "8d0ec4cda52c", 28),
    ("easy", "fruitbot"): ("e2e3144b0987", "49e9ff1907dc", "099497ec3be0", 17),
    ("easy", "heist"): ("8182d5b9828b", "51c053bc5d86", "33b5607e9861", 2),
    ("easy", "jumper"): ("f3e12344b8c4", "0804f7bb4e13", "0dfdaf05c8e9", 9),
    ("easy", "leaper"): ("de822ea1099b", "c3dec69f4539", "aff52e2abfed", 16),
    ("easy", "maze"): ("1cbb391e441f", "f59dd5c6107e", "b182b0052299", 7),
    ("easy", "miner"): ("74c171f8505e", "fc0d5e9f52ee", "e3fbd6ad1cc0", 1),
    ("easy", "ninja"): ("ce6640d17125", "4b145baf65d3", "342b90668e94", 3),
    ("easy", "plunder"): ("3a7e70e9f410", "6d4cc444dd51", "3758fa4ec45f", 0),
    ("easy", "starpilot"): ("a3f1281d097e", "095d18774386", "f2133320b524", 17),
    ("hard", "bigfish"): ("efbb44da05be", "b1593ccb28df", "309dd7175ccb", 12),
    ("hard", "bossfight"): ("df6f55b9760a", "2ecc2563ae0f", "edb161abc32b", 38),
    ("hard", "caveflyer"): ("b59c65b67116", "5bf422de70da", "26db40be3abf", 4),
    ("hard", "chaser"): ("707bcec0bd1d", "4c2c2163059f", "cdc93e45e086", 8),
    ("hard", "climber"): ("f87c003d6189", "17d8661e1d93", "729f3beaabc4", 2),
    ("hard", "coinrun"): ("2dbad5ac723e", "0db89ad964f5", "0dfd7c066528", 1),
    ("hard", "dodgeball"): ("4b96d312a9c0", "3f5718b71b9c", "d31582671ee4", 22),
    ("hard", "fruitbot"): ("52112124735a", "780e511151ec", "5b533942e4f7", 42),
    ("hard", "heist"): ("53a349e2436b", "99c275c3ac5c", "1f205918594b", 0),
    ("hard", "jumper"): ("3bc31d54edc6", "71aafceeb89e", "399964f786f8", 5),
    ("hard", "leaper"): ("1afec145763a", "6cfca2cea910", "40e709728a92", 9),
    ("hard", "maze"): ("51c2564e351f", "227278d7b678", "fda9cd3b8829", 3),
    ("hard", "miner"): ("a84938d75a9f", "9de1cbc9b853", "39fba0c58a51", 5),
    ("hard", "ninja"): ("b7108144f58a", "985415795423", "1ed6b91e767f", 8),
    ("hard", "plunder"): ("ba84c4731160", "2fc042984ac8", "4e0b57787268", 0),
    ("hard", "starpilot"): ("5ba83bba9b58", "7f0466f6dd69", "cdd9114ad222", 15),
}
# The games in which procgen-gym's Qt paints a few pixels otherwise than procgen-mirror's.
REPAINTED = {"bossfight", "caveflyer", "climber", "coinrun", "jumper", "ninja"}


def beginning(parts: list[Array]) -> str:
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()[:12]


@pytest.mark.parametrize(("mode", "game"), PLAYED)
def test_play_is_that_of_the_engines_own_python(mode: Any, game: str) -> None:
    config = ProcgenConfig(mode=mode)
    levels = split_levels(config, "train" if mode == "easy" else "test")
    envs = ProcgenVectorEnv(game, 8, levels, config, seed=1)
    rng = np.random.default_rng(0)
    first, info = envs.reset()
    frames, play, states, ends = [first], [info["level_seed"]], [], 0
    for step in range(1, 201):
        obs, reward, done, _, info = envs.step(rng.integers(0, 15, 8))
        frames.append(obs)
        play += [reward, done, info["level_seed"], info["prev_level_seed"]]
        play.append(info["prev_level_complete"])
        ends += int(done.sum())
        if step % 50 == 0:
            states.append(envs.get_state()["games"])
    drawn, *rest = PLAYED[mode, game]
    assert [beginning(play), beginning(states), ends] == rest
    if game not in REPAINTED or installed().package == "procgen-mirror":
        assert beginning(frames) == drawn


def test_the_list_of_games_is_the_engines() -> None:
    path = installed().data.parent / "env.py"
    names = [node.value for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign)
             and ast.unparse(node.targets[0]) == "ENV_NAMES"]  # fmt: skip
    assert list(GAMES) == ast.literal_eval(names[0])


def test_nothing_of_the_engines_python_is_imported() -> None:
    code = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("gym", "gym3", "cffi", "_cffi_backend", "procgen", "procgen_gym"):
            raise AssertionError(f"{name} is imported")

sys.meta_path.insert(0, Refuse())
import numpy as np
from crosstraj.envs import ProcgenConfig, make_envs
envs = make_envs("coinrun", 2, levels="train", procgen=ProcgenConfig(), seed=0)
envs.set_state(envs.get_state())
envs.step(np.array([7, 7]))
envs.close()
print("light")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "light\n", "")


# ---- words for faults ----


def options(**changes: Value) -> dict[str, Value]:
    plain: dict[str, Value] = {name: kind() for name, kind in OPTIONS.items()}
    return {**plain, "env_name": "coinrun", "num_levels": 1, **changes}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (options(center_agents=True), "options center_agents: the engine takes all of env_name"),
        ({"env_name": "coinrun"}, "options center_agent, "),
        (options(num_levels=True), "num_levels=True: the engine takes int here"),
        (options(center_agent=1), "center_agent=1: the engine takes bool here"),
        (options(rand_seed=2**31), "rand_seed=2147483648: the engine has 32 bits"),
    ],
)
def test_a_wrong_option_is_refused_before_the_engine_ends_the_process(
    wrong: dict[str, Value], words: str
) -> None:
    with pytest.raises(BadInput, match=words):
        Engine(1, wrong)


def test_an_engine_may_be_closed_twice_and_does_not_play_after_that() -> None:
    engine = Engine(2, options())
    engine.observe()
    assert engine.frames.std() > 1
    assert engine.first.all()
    engine.close()
    engine.close()
    for play in (engine.observe, engine.get_state, lambda: engine.act(np.zeros(2, int))):
        with pytest.raises(BadInput, match="was closed"):
            play()
