"""The table of relative gains by pairs of game and seed."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crosstraj.experiments.jobs import prepare
from crosstraj.experiments.look import Look
from crosstraj.experiments.tables.decision import Compared, at_look
from crosstraj.experiments.tables.make import make_table
from crosstraj.report.permutation import Verdict, in_words, verdict
from crosstraj.report.statistics import Estimate
from crosstraj.runs.shipped import file_of
from tests.experiments.tables.runs import FROZEN, PPO, fill, judged, plan_of, update


def test_the_paired_table_says_what_is_gained_over_the_baseline_and_what_is_excluded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand: bigfish's baseline is 3 above random play, b gains .3 and .3; coinrun 4, 0 and 0."""
    monkeypatch.chdir(tmp_path)
    plan = plan_of({"a": PPO, "b": FROZEN}, games=("bigfish", "coinrun"), table="paired")
    plan = replace(plan, baseline="a")
    jobs = prepare(plan.runs(), tmp_path / "runs")
    scores = {"a/bigfish": 4.0, "b/bigfish": 4.3, "a/coinrun": 6.0, "b/coinrun": 6.0}
    for job in jobs:
        score = scores[f"{job.planned.variant}/{job.planned.game}"] + job.planned.seed
        fill(job, [judged(50, 1.0), update(100), judged(100, score)])
    first = make_table(plan, jobs, tmp_path / "out")[0].read_text()
    assert "b over a, coinrun: left out, random play is not measured" in first
    assert "b: no pair with a yet, so nothing can be said." in first
    for job in jobs:
        file = file_of(job.config, "unseen")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"return": 1.5 if job.planned.game == "bigfish" else 2.5}))
    assert len(list(Path("results/random").iterdir())) == 2  # by game, not by variant or seed
    written = make_table(plan, jobs, tmp_path / "out")
    text = written[0].read_text()
    assert "(p = 0.5, 4 pairs): so few" in text  # and no interval from -inf to inf
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert ["b", "+10.0", "+0.0", "+5.0 [+5.0, +5.0]", "any", "0.5", "4"] in lines
    assert ["bigfish", "1.50", "4.50", "3.00"] in lines
    assert ["coinrun", "2.50", "6.50", "4.00"] in lines
    assert "so few pairs can show nothing and exclude nothing." in text
    assert "and p is at most 0.05." in text
    found = json.loads(written[1].read_text())
    assert found["verdicts"]["b"]["p"] == 0.5  # 4 pairs, two of them 0: 8 of 16 patterns
    assert found["random"] == {"bigfish": 1.5, "coinrun": 2.5}
    (jobs[-1].directory / "metrics.jsonl").write_text("[]\n")  # is nobody else's matter
    text = make_table(plan, jobs, tmp_path / "out")[0].read_text()
    assert "random play is not measured" not in text
    assert "could not be read" in text


GAMES, SEEDS = ("bigfish", "coinrun", "starpilot"), (10, 11, 12, 13, 14)
LOOK = Look("b", seeds=3, success=0.005, futility=0.05)
ZERO = dict.fromkeys(GAMES, 0.0)
PLAN = replace(plan_of({"a": PPO, "b": FROZEN}, GAMES, SEEDS, "paired"), baseline="a", look=LOOK)


def returns(*by_seed: float) -> dict[str, dict[int, float]]:
    """The same returns in every game."""
    return {game: dict(zip(SEEDS, by_seed, strict=False)) for game in GAMES}


THEIRS = returns(10, 10, 10, 10, 10)


@pytest.mark.parametrize(
    ("ours", "says", "words"),
    [
        # Nine pairs of one sign: 2 of 512 patterns are as far. What came after is not looked at.
        (returns(11, 11, 11, 0, 0), "stop", "stop: a gain is shown** (+10.0 %, p = 0.0039"),
        (returns(9, 9, 9), "stop", "stop: a loss is shown** (-10.0 %, p = 0.0039"),
        (returns(10.4, 9.7, 10.1), "stop", "stop: more runs would not find a gain of that size"),
        (returns(12, 10, 9), "go on", "go on to the end"),
        (returns(11, 11), "nothing", "3 of 9 pairs are not finished, such as bigfish s12."),
    ],
)
def test_the_look_follows_its_rule(
    ours: dict[str, dict[int, float]], says: str, words: str
) -> None:
    found = at_look(PLAN, LOOK, Compared(ours, THEIRS, ZERO))
    assert found.says == says
    assert words in found.words
    assert "p <= 0.045 counts at the end" in found.words


def test_futility_asks_for_what_the_test_excludes_and_not_for_the_bootstrap() -> None:
    """The interval of these ends at 6.3 % by the bootstrap, and at 7 % by the test."""
    ours = {game: dict(zip(SEEDS, (11, 9.5, 10.1), strict=False)) for game in GAMES}
    found = Compared(ours, THEIRS, ZERO)
    assert verdict(*found.first(SEEDS[:3])).gain.high < 0.066
    assert at_look(PLAN, LOOK._replace(futility=0.066), found).says == "go on"
    assert at_look(PLAN, LOOK._replace(futility=0.2), found).says == "stop"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"chance": ZERO | {"coinrun": float("nan")}}, "coinrun is left out, random play is not"),
        ({"chance": ZERO | {"coinrun": 10.0}}, "coinrun is left out, the baseline is not above"),
        ({"chance": dict.fromkeys(GAMES, float("nan"))}, "bigfish is left out, random play"),
        ({"theirs": THEIRS | {"coinrun": {10: 10.0}}}, "2 of 9 pairs are not finished"),
        ({"theirs": THEIRS | {"coinrun": {10: 10.0, 11: 1.0, 12: float("nan")}}}, "1 of 9 pairs"),
    ],
)
def test_the_look_decides_nothing_where_a_pair_is_missing(change: dict[str, Any], why: str) -> None:
    found = Compared(returns(11, 11, 11, 11, 11), THEIRS, ZERO)._replace(**change)
    decision = at_look(PLAN, LOOK, found)
    assert decision.says == "nothing"
    assert f"It decides nothing: {why}" in decision.words
    assert "nan" not in decision.words.lower()


@pytest.mark.parametrize("finished", [2, 4, 5])
def test_nothing_is_claimed_between_the_look_and_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: int
) -> None:
    """A gain in every pair, which two seeds of three games are enough for: p = 2 / 64."""
    monkeypatch.setattr("crosstraj.experiments.tables.results.read_chance", lambda *_: 0.0)
    plan = replace(PLAN, variants={"a": PPO, "b": FROZEN, "c": PPO | {"policy.discount": 0.9}})
    jobs = prepare(plan.runs(), tmp_path / "runs")
    for job in jobs:
        if job.planned.seed in SEEDS[:finished]:
            score = {"a": 10.0, "b": 11.0, "c": 12.0}[job.planned.variant]
            fill(job, [judged(50, 1.0), update(100), judged(100, score)])
    text = make_table(plan, jobs, tmp_path / "out")[0].read_text()
    claims = [line for line in text.splitlines() if "is shown" in line and line.startswith("- ")]
    assert "c over a: +20.0 %" in text
    assert "; no claim: the file allows one of b alone." in text
    if finished == len(SEEDS):
        assert [claim[:13] for claim in claims] == ["- b over a: +"]
        assert "| **+10.0 [+10.0, +10.0]** |" in text
        return
    assert claims == []
    assert "**+" not in text
    left = 15 - 3 * finished
    why = f"one at its look and one at the end, and {left} of 15 pairs are not finished"
    assert why in text


def test_what_the_look_may_take_is_taken_from_the_end() -> None:
    found = Verdict(Estimate(0.1), 6 / 128, 0.05, 0.001, 0.2, {"bigfish": 0.1}, 7, {})
    assert "a gain is shown" in in_words("b", "a", found)
    stricter = found._replace(level=0.05 - LOOK.success, low=-0.001)
    assert "no gain is shown" in in_words("b", "a", stricter)


def test_a_further_baseline_is_shown_beside_with_the_same_statistic_and_no_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand: b has 12 where a has 10 and the frozen encoder 5, of which 2 are random play's."""
    monkeypatch.setattr("crosstraj.experiments.tables.results.read_chance", lambda *_: 2.0)
    plan = plan_of({"a": PPO, "frozen": FROZEN, "b": PPO | {"policy.discount": 0.9}}, GAMES, SEEDS)
    plan = replace(plan, table="paired", baseline="a", beside=("frozen",))
    jobs = prepare(plan.runs(), tmp_path / "runs")
    for job in jobs:
        score = {"a": 10.0, "frozen": 5.0, "b": 12.0}[job.planned.variant]
        fill(job, [judged(50, 1.0), update(100), judged(100, score)])
    written = make_table(plan, jobs, tmp_path / "out")
    text = written[0].read_text()
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    ours, theirs = (line[4:] for line in lines if line[:1] == ["b"] and line[-1] == "15")
    assert ours[0] == "**+25.0 [+25.0, +25.0]**"
    assert theirs[0] == "+233.3 [+233.3, +233.3]"
    assert ours[2:] == theirs[2:] == ["6.1e-05", "15"]
    (claim,) = (line for line in text.splitlines() if "is shown." in line and "over" in line)
    assert claim.startswith("- b over a: +25.0 %")
    assert "15 pairs); no claim: a alone decides." in text
    assert "15 pairs); no claim: it is a baseline itself." in text  # frozen over a
    assert "a over frozen" not in text
    assert ["bigfish", "2.00", "5.00", "3.00"] in lines
    found = json.loads(written[1].read_text())["beside"]
    assert found["frozen"]["b"]["gain"]["value"] == pytest.approx(7 / 3)
