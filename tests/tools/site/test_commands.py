"""The list of commands: every one, with its own options alone."""

from tools.site.commands import call, every_command, own_options, section, words


def test_every_command_has_a_section_and_its_options() -> None:
    page = every_command()
    for name in ("train", "evaluate", "experiment", "doctor"):
        assert f"## crosstraj {name}\n" in page
    evaluate = section("evaluate", "play")
    assert "crosstraj evaluate RUN [OPTIONS]" in evaluate
    assert "```{option} --episodes N\nEpisodes per split. Default: `128`.\n```" in evaluate


def test_switches_places_and_lists_are_written_as_they_are_given() -> None:
    options = {option.name: option for option in own_options("evaluate")}
    assert call(options["run"]) == "RUN"
    assert call(options["greedy"]) == "--greedy, --no-greedy"
    assert call(options["split"]) == "--split {seen,unseen,validation} ..."
    assert words(options["run"]).endswith("agents/<name>.")  # it has no default


def test_train_has_its_own_options_and_leaves_values_to_their_page() -> None:
    assert {option.name for option in own_options("train")} == {"levels", "from_", "allow_inexact"}
    assert "(values.md)" in section("train", "train")
