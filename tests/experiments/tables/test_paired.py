"""The table of relative gains by pairs of game and seed."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from crosstraj.experiments.jobs import prepare
from crosstraj.experiments.look import Look
from crosstraj.experiments.tables.make import make_table
from crosstraj.experiments.tables.paired import at_look, look_in_words
from crosstraj.report.permutation import Verdict, in_words
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
    assert "b, coinrun: left out, random play is not measured" in first
    assert "b: no pair with a yet, so nothing can be said." in first
    for job in jobs:
        file = file_of(job.config, "unseen")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"return": 1.5 if job.planned.game == "bigfish" else 2.5}))
    assert len(list(Path("results/random").iterdir())) == 2  # by game, not by variant or seed
    written = make_table(plan, jobs, tmp_path / "out")
    text = written[0].read_text()
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert ["b", "+10.0", "+0.0", "+5.0 [+5.0, +5.0]", "any", "0.5", "4"] in lines
    assert ["bigfish", "1.50", "4.50", "3.00"] in lines
    assert ["coinrun", "2.50", "6.50", "4.00"] in lines
    assert "so few pairs can show nothing and exclude nothing." in text
    assert "where p is at most 0.05" in text
    found = json.loads(written[1].read_text())
    assert found["verdicts"]["b"]["p"] == 0.5  # 4 pairs, two of them 0: 8 of 16 patterns
    assert found["random"] == {"bigfish": 1.5, "coinrun": 2.5}


GAMES, SEEDS = ("bigfish", "coinrun", "starpilot"), (10, 11, 12, 13, 14)
LOOK = Look("b", seeds=3, success=0.005, futility=0.05)
ZERO = dict.fromkeys(GAMES, 0.0)


def returns(*by_seed: float) -> dict[str, dict[int, float]]:
    """The same returns in every game."""
    return {game: dict(zip(SEEDS, by_seed, strict=False)) for game in GAMES}


@pytest.mark.parametrize(
    ("ours", "says"),
    [
        # Nine pairs of one sign: 2 of 512 patterns are as far. What came after is not looked at.
        (returns(11, 11, 11, 0, 0), "stop: a difference is shown** (+10.0 [+10.0, +10.0] %, p = 0"),
        (returns(9, 9, 9), "stop: a difference is shown** (-10.0 [-10.0, -10.0] %, p = 0"),
        (returns(10.4, 9.7, 10.1), "stop: more runs would not find a gain of that size"),
        (returns(12, 10, 9), "go on to the end"),
        (returns(11, 11), "too early for it: 6 of 9 pairs are finished"),
    ],
)
def test_the_look_follows_its_rule(ours: dict[str, dict[int, float]], says: str) -> None:
    theirs = at_look(LOOK, SEEDS, returns(10, 10, 10, 10, 10))
    words = look_in_words(LOOK, "a", at_look(LOOK, SEEDS, ours), theirs, ZERO)
    assert says in words
    assert "p <= 0.045 counts at the end" in words


def test_what_the_look_may_take_is_taken_from_the_end() -> None:
    found = Verdict(Estimate(0.1), 6 / 128, 0.05, 0.001, 0.2, {"bigfish": 0.1}, 7, {})
    assert "a gain is shown" in in_words("b", "a", found)
    stricter = found._replace(level=0.05 - LOOK.success, low=-0.001)
    assert "no gain is shown" in in_words("b", "a", stricter)
