"""The progress of a run: rates, times, and lines that a full disk may cost."""

from pathlib import Path

import pytest
from rich.table import Table

from crosstraj.learning.display import Plain, Terminal, clock, screen, spared, stage
from tests.cli.answers import Capture


def test_output_on_a_full_disk_costs_the_lines_and_not_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full = Path("/dev/full").open("w")  # noqa: SIM115  # closing it would fail, too
    monkeypatch.setattr("sys.stdout", full)
    monkeypatch.setattr("sys.stderr", full)
    with pytest.raises(OSError, match="No space left"):
        print("a disk that is full", flush=True)
    display = Plain(10)
    display.show(5, {})
    display.say("a sentence")
    with spared():
        full.close()


def test_seconds_are_shown_as_hours_minutes_and_seconds() -> None:
    assert [clock(s) for s in (0, 59.9, 61, 3600, 36_061)] == [
        "0:00:00",
        "0:00:59",
        "0:01:01",
        "1:00:00",
        "10:01:01",
    ]


def test_rate_and_time_left_count_from_where_this_process_began(
    monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    now = iter([0.0, 100.0, 100.0, 110.0])
    monkeypatch.setattr("crosstraj.learning.display.time.monotonic", lambda: next(now))
    display = Plain(4000)
    display.show(1000, {"train_return": 1.5})
    display.show(2000, {"entropy": 2.5})  # 1000 frames in 10 seconds, 2000 to go
    first, second = capfd.readouterr().out.splitlines()
    assert " ".join(first.split()) == "1,000/4,000 0/s -:--:-- left train 1.5"
    assert " ".join(second.split()) == "2,000/4,000 100/s 0:00:20 left train 1.5 entropy 2.5"


def test_the_terminal_shows_figures_and_says_sentences_word_for_word(capfd: Capture) -> None:
    with Terminal(4000, "ppo on starpilot") as display:
        display.say("runs [old] is done")
        display.show(1000, {"seen_return": 3.25})
    out = capfd.readouterr().out
    assert "runs [old] is done" in out
    assert "1,000/4,000 frames" in out
    assert "3.25" in out


HOSTILE = "a [/x] b [red]c"  # markup that ends what never began, and a colour


def test_a_name_with_brackets_stays_text_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    with Terminal(4000, HOSTILE) as display:
        display.show(1000, {})
    with stage(HOSTILE) as advance:
        advance(1)
    table = Table("run", HOSTILE)
    table.add_row(HOSTILE, "1")
    screen().print(table)
    out, err = capfd.readouterr()
    assert HOSTILE in err
    assert out.count(HOSTILE) >= 3  # the bar's title, a heading and a cell
