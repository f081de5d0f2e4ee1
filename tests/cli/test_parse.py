"""The parser: words become values of their type, or one sentence says why not."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import pytest

from crosstraj.cli.options import FLAT, POSITIONAL, options_of
from crosstraj.cli.parse import parse
from crosstraj.errors import BadInput


@dataclass(frozen=True)
class Rates:
    learning_rate: float = 0.5
    """How fast."""
    steps: int = 3


@dataclass(frozen=True)
class Values:
    frames: int = 100
    """How many,
    in one line."""
    kind: Literal["near", "far"] = "near"
    rates: Rates = field(default_factory=Rates)
    phases: tuple[Rates, ...] = ()


@dataclass(frozen=True)
class Told:
    runs: Annotated[tuple[Path, ...], POSITIONAL]
    values: Annotated[Values, FLAT] = field(default_factory=Values)
    splits: tuple[str, ...] = ("seen",)
    step: int | None = None
    fast: bool = False
    sharp: bool = True
    with_: Path | None = None


def told(*words: str) -> Told:
    return parse(Told, "show", "Show.", words)


def why_not(*words: str) -> str:
    with pytest.raises(BadInput) as refused:
        told(*words)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_without_words_everything_is_as_its_default() -> None:
    assert told() == Told(())


def test_values_find_their_place_however_deep_it_is() -> None:
    made = told("--rates.steps", "5", "--kind=far", "a", "--rates.learning_rate", "-1e-3", "b")
    assert made == Told((Path("a"), Path("b")), Values(kind="far", rates=Rates(-1e-3, 5)))


def test_parts_of_a_tuple_are_numbered() -> None:
    default = Told((), Values(phases=(Rates(), Rates(1.0))))
    made = parse(Told, "show", "", ["--phases.1.steps", "9"], default=default)
    assert made.values.phases == (Rates(), Rates(1.0, 9))


@pytest.mark.parametrize(
    ("word", "count"),
    [("1e6", 10**6), ("1M", 10**6), ("250k", 250_000), ("1.5M", 1_500_000), ("1_000", 1000),
     ("-1", -1), ("-1k", -1000), ("2.0", 2), ("9007199254740993", 2**53 + 1)],
)  # fmt: skip
def test_a_count_may_be_written_short(word: str, count: int) -> None:
    assert told("--frames", word).values.frames == count
    assert told(f"--frames={word}").values.frames == count


@pytest.mark.parametrize(
    "word", ["1.5", "many", "M", "", "nan", "inf", "1e999999999", "1m", "0x10"]
)
def test_what_is_no_whole_number_is_no_count(word: str) -> None:
    sentence = "must be a whole number, such as 250000, 250k or 1e6"
    assert why_not(f"--frames={word}") == f"--frames {word}: {sentence}"


@pytest.mark.parametrize(
    ("words", "fast", "sharp"),
    [
        ("--fast --no-sharp", True, False),
        ("--fast True --sharp False", True, False),  # spelt out
        ("--fast=True --sharp=False", True, False),
        ("--fast --no-fast --sharp", False, True),  # the last counts
    ],
)
def test_what_is_on_or_off_is_a_flag(words: str, fast: bool, sharp: bool) -> None:
    made = told(*words.split(), "run")
    assert (made.fast, made.sharp, made.runs) == (fast, sharp, (Path("run"),))


def test_several_values_go_up_to_the_next_flag() -> None:
    made = told("--splits", "seen", "unseen", "--step", "1k", "--splits", "a")
    assert (made.splits, made.step) == (("a",), 1000)
    assert told("--splits").splits == ()
    assert told("--step", "3", "--step", "None").step is None


def test_a_name_that_python_keeps_for_itself_is_written_without_its_underscore() -> None:
    assert told("--with", "mine.py").with_ == Path("mine.py")


def test_a_refusal_names_the_value_the_rule_and_the_fix() -> None:
    assert why_not("--kind", "middle") == "--kind middle: must be one of near, far"
    assert why_not("--kind", "nera") == "--kind nera: must be one of near, far; did you mean near?"
    assert "such as 0.5 or 1e-4" in why_not("--rates.learning-rate", "fast")
    assert why_not("--fast=yes") == "--fast=yes: this is on or off; write --fast, or --no-fast"
    assert why_not("--no-fast=1").startswith("--no-fast=1: this is on or off")
    assert why_not("--step", "--fast") == "--step has no value; write --step N"


def test_a_flag_that_is_near_is_suggested_and_none_that_is_far() -> None:
    assert why_not("--frmaes", "1") == "unknown flag --frmaes: did you mean --frames?"
    assert why_not("--learning-rate", "1").endswith("did you mean --rates.learning-rate?")
    assert why_not("--no-shrap").endswith("did you mean --no-sharp?")
    for far in ("--resume", "-x"):
        assert (
            why_not(far) == f"unknown flag {far}; `crosstraj show --help-all` lists those there are"
        )


@dataclass(frozen=True)
class Shares:
    share: float = 0.5
    """At most 100% of them; 5 %(s) is no place to fill in."""
    rates: Rates = field(default_factory=Rates)


def test_the_help_says_the_text_word_for_word_and_the_default(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for hidden, there in (((), True), (("rates",), False)):
        with pytest.raises(SystemExit):
            parse(Shares, "show", "Show.", ["--share", "many", "--help"], hidden=hidden)
        text = " ".join(capsys.readouterr().out.split())
        assert (
            "--share X At most 100% of them; 5 %(s) is no place to fill in. (default: 0.5)" in text
        )
        assert ("rates options: --rates.learning-rate X How fast." in text) == there
        assert ("rates" in text) == there


def test_the_help_of_an_option_is_the_text_below_its_field() -> None:
    options = options_of(Values)
    assert options["frames"].help == "How many, in one line."
    assert options["rates.learning_rate"].help == "How fast."
    assert (options["rates.steps"].help, "phases" in options) == ("", False)
