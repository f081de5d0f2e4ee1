"""The list of values has every option of every method, and presets say what they change."""

from crosstraj.cli.options import options_of
from crosstraj.config.methods import METHODS
from crosstraj.config.presets import preset
from crosstraj.config.values import Config
from tools.site.values import changes, differing, every_value


def test_every_option_of_every_method_is_in_the_list() -> None:
    page = every_value()
    for method in METHODS:
        for option in options_of(Config, preset(method, "default")).values():
            if not option.name.startswith("phases.1."):  # the same as those of the first
                assert f"```{{option}} {option.flag}" in page, (method, option.name)
    assert "Default: `ctrl`." in page  # of the command, though the values are PPO's


def test_what_a_preset_changes() -> None:
    paper = differing(preset("ctrl", "default"), preset("ctrl", "paper"))
    assert "`objective.code_temperature` 0.3" in paper
    assert "`objective.swap_codes` off" in paper
    assert "preset" not in paper
    ppo = list(changes("ppo"))
    assert ppo[0].startswith("- `--preset paper`")  # `default` changes nothing
    assert "`envs` 32, `encoder` impala, `policy.epochs` 1, `policy.minibatches` 8" in ppo[0]
