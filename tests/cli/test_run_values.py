"""The command line of training: what its help shows, whose a flag is, what follows from another."""

import re
from typing import Any

import pytest

from crosstraj.cli.main import main
from crosstraj.cli.options import options_of
from crosstraj.config.fitting import fitting_envs
from crosstraj.config.methods import METHODS
from crosstraj.config.presets import preset, with_policy
from crosstraj.config.values import POLICIES, Config
from crosstraj.envs import IsingConfig
from crosstraj.errors import BadInput
from crosstraj.experiments.jobs import configure
from crosstraj.experiments.plan import Planned

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """The configurations that commands would have trained."""
    found: list[Config] = []

    def stop_there(config: Config, *_: Any, **__: Any) -> Any:
        found.append(config)
        raise BadInput("enough")

    monkeypatch.setattr("crosstraj.learning.place.open_run", stop_there)
    return found


def help_of(capfd: Capture, *words: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(["train", *words])
    assert end.value.code == 0
    return capfd.readouterr().out


def flags_in(text: str) -> set[str]:
    return set(re.findall(r"^  --(?:\[no-\])?([a-z0-9.-]+)", text, re.MULTILINE))


def test_help_shows_what_people_change_and_help_all_the_rest(capfd: Capture) -> None:
    few, every = flags_in(help_of(capfd, "--help")), flags_in(help_of(capfd, "--help-all"))
    assert 15 <= len(few) <= 18
    assert few < every
    assert {"env", "frames", "policy.epochs", "machine.threads", "saving.tensorboard"} <= few
    assert "policy.clip" not in few
    assert f"--help-all` shows {len(every) - len(few)} more" in help_of(capfd, "--help")


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ("coinrun", (50, 50, 0)),
        ("ALE/Pong-v5", (50, 200, 50)),
    ],
)
def test_levels_is_one_word_whatever_the_environment(
    env: str, expected: tuple[int, int, int], opened: list[Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crosstraj.cli.train.check_env_name", lambda *_: None)
    assert main(["train", "--env", env, "--levels", "50"]) == 2
    (config,) = opened
    found = (config.train_levels, config.procgen.train_levels, config.gymnasium.train_levels)
    assert found == expected


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--env coinrun --levels 5 --procgen.train-levels 6", "give one of them"),
        ("--env a:B-v0 --levels 5 --gymnasium.train-levels 6", "give one of them"),
        ("--env ising --levels 5", "ising has no levels but goals"),
        ("--env coinrun --gymnasium.train-levels 5", "procgen.train_levels"),
        ("--env coinrun --levels 0", "at least 1 level"),
        ("--env a:B-v0 --levels -1", "neither can be below 0"),
    ],
)
def test_levels_that_contradict_are_refused(words: str, said: str, capfd: Capture) -> None:
    assert main(["train", *words.split()]) == 2
    assert said in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "there", "not_there"),
    [
        ("--method ctrl", "procgen representation objective policy", "ising gymnasium"),
        ("--method ppo", "procgen policy", "ising representation objective"),
        ("--method ppo --env ising", "ising", "procgen representation"),
        ("--method ctrl --env=ALE/Pong-v5", "objective gymnasium", "ising procgen"),
        ("--method diayn", "phases.0 phases.1 objective", "ising"),
    ],
)
def test_help_all_leaves_out_what_does_not_apply(
    words: str, there: str, not_there: str, capfd: Capture
) -> None:
    text = help_of(capfd, *words.split(), "--help-all")
    for group in there.split():
        assert f"\n{group} options:\n  --" in text
    for group in not_there.split():
        assert f"{group} options" not in text
        assert f"--{group}." not in text


def default_of(option: str, text: str) -> str:
    """The default that a help text gives for an option, read across its line breaks."""
    found = re.search(rf"{re.escape(option)} .*?\(default: ([^)]*)\)", " ".join(text.split()))
    assert found, f"{option} is not in the help"
    return found[1]


@pytest.mark.parametrize(
    ("arguments", "option", "value"),
    [
        ("", "--method", "ctrl"),
        ("", "--objective.code-temperature", "0.05"),
        ("--preset paper", "--objective.code-temperature", "0.3"),
        ("--preset=paper", "--feature-norm", "none"),
        ("--preset literal", "--no-objective.whole-rows", "on"),
        ("--method ppo --preset procgen", "--envs", "64"),
        ("--method ppo", "--encoder-grad", "rl"),
    ],
)
def test_the_help_of_train_shows_the_values_of_the_preset(
    arguments: str, option: str, value: str, capfd: Capture
) -> None:
    assert default_of(option, help_of(capfd, *arguments.split(), "--help-all")) == value


def every_configuration() -> list[Config]:
    methods = [preset(method, "default") for method in METHODS]
    return methods + [with_policy(preset("ctrl", "default"), kind) for kind in POLICIES]


def test_every_value_of_every_method_has_a_line_of_help() -> None:
    for config in every_configuration():
        silent = [o.flag for o in options_of(Config, config).values() if not o.help.endswith(".")]
        # A note in brackets may end the sentence after its full stop.
        assert [flag for flag in silent if not help_ends(config, flag)] == []


def help_ends(config: Config, flag: str) -> bool:
    (option,) = [o for o in options_of(Config, config).values() if o.flag == flag]
    return option.help.endswith(".)")


def test_a_value_that_the_help_leaves_out_is_still_taken(opened: list[Config]) -> None:
    words = ("--method", "ppo", "--ising.side", "8", "--representation.epochs", "2")
    assert main(["train", *words]) == 2
    (config,) = opened
    assert (config.ising, config.representation.epochs) == (IsingConfig(side=8), 2)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--objective.skills 3", "--objective.skills belongs to diayn, and the method is ctrl"),
        ("--phases.0.share 1", "--phases.0.share belongs to diayn and proto, and the method"),
        ("--no-objective.centred", "--no-objective.centred belongs to situations,"),
        (
            "--policy.per-game",
            "--policy.per-game belongs to --policy.kind daac, and the policy is ppo",
        ),
        ("--method daac --policy.advantages rollout", "belongs to --policy.kind ppo"),
    ],
)
def test_a_flag_of_another_method_is_told_so(words: str, sentence: str, capfd: Capture) -> None:
    assert main(["train", *words.split()]) == 2
    assert sentence in capfd.readouterr().err


def test_environments_follow_the_episodes_and_one_line_says_so(
    opened: list[Config], capfd: Capture
) -> None:
    assert main(["train", "--evaluation.episodes", "10"]) == 2
    said = capfd.readouterr().err.splitlines()
    assert said[:-1] == [
        "evaluation.envs=10, so that each environment plays the same share of 10 episodes"
    ]
    assert main(["train", "--evaluation.episodes", "256"]) == 2
    assert len(capfd.readouterr().err.splitlines()) == 1  # 64 of them fit
    assert [config.evaluation.envs for config in opened] == [10, 64]
    assert main(["train", "--evaluation.episodes", "10", "--evaluation.envs", "4"]) == 2
    assert "is not a multiple of evaluation.envs=4" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("episodes", "envs"), [(1, 1), (10, 10), (64, 64), (100, 50), (127, 1), (128, 64), (192, 64)]
)
def test_the_environments_are_the_largest_divisor_up_to_64(episodes: int, envs: int) -> None:
    assert fitting_envs(episodes, 64) == envs


def test_the_command_of_an_experiment_trains_what_the_experiment_has_made(
    opened: list[Config], tmp_path: Any
) -> None:
    values = {
        "method": "ctrl",
        "preset": "default",
        "objective.action_conditioning": False,
        "evaluation.greedy": True,
        "evaluation.episodes": 10,
        "frames": 1000,
    }
    planned = Planned("a", "bigfish", 3, values)
    words = planned.command({"saving.runs": str(tmp_path), "allow_inexact": True})
    assert {"--no-objective.action-conditioning", "--evaluation.greedy"} < set(words)
    assert words[-1] == "--allow-inexact"
    assert not {"True", "False"} & set(words)
    assert main(words) == 2
    assert opened == [configure(planned, tmp_path)]
