"""Runs side by side by temperature: what is paired, averaged, and said to differ."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from crosstraj.analysis import temperatures
from crosstraj.analysis.result import Moment
from crosstraj.analysis.temperatures import Course, compare, mean_line, paired
from crosstraj.config.presets import plain

NAN = float("nan")


def run(
    silhouettes: list[float],
    returns: dict[int, float],
    *,
    seed: int = 0,
    beta: float = 0.1,
    env: str = "bigfish",
    **values: object,
) -> Course:
    """Snapshots every 100 frames; returns by frame count."""
    config = plain("ctrl")
    objective = replace(config.objective, code_temperature=beta, temperature=beta, **values)
    config = replace(config, objective=objective, seed=seed, env=env)
    moments = [Moment(100 * (n + 1), s, NAN, 1, {}) for n, s in enumerate(silhouettes)]
    rows = [{"frames": at, "unseen_return": value} for at, value in returns.items()]
    name = Path(f"b{beta}-s{seed}")
    return Course(name, config, 100 * len(silhouettes), moments, rows, [])


def row_of(text: str, name: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {name} ")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_snapshot_is_paired_with_the_nearest_evaluation_if_one_is_near():
    # A twentieth of 400 frames is 20: 215 is near 200, 340 is near nothing.
    course = run([0.1, 0.2, 0.3, 0.4], {90: 1.0, 110: NAN, 215: 2.0, 340: 3.0, 400: 4.0})
    frames, silhouettes, returns = paired(course)
    assert frames.tolist() == [100, 200, 300, 400]
    assert silhouettes.tolist() == [0.1, 0.2, 0.3, 0.4]
    np.testing.assert_array_equal(returns, [1, 2, NAN, 4])


def test_the_rank_correlation_of_each_run_is_that_of_its_own_pairs():
    falling = run([0.1, 0.2, 0.3], {100: 9.0, 200: 8.0, 300: -70.0}, beta=0.1)
    rising = run([0.1, 0.5, 0.7], {100: 1.0, 200: 2.0, 300: 2.5}, beta=0.3)
    short = run([0.1, 0.2], {100: 1.0, 200: 2.0}, beta=0.5)
    text = compare([falling, rising, short])
    assert row_of(text, "b0.1-s0")[5:] == ["0.300", "-70.00", "-1.00", "3"]
    assert row_of(text, "b0.3-s0")[5:] == ["0.700", "2.50", "+1.00", "3"]
    assert row_of(text, "b0.5-s0")[5:] == ["0.200", "2.00", "NaN", "2"]
    # At the end: silhouettes .3 .7 .2 with returns -70 2.5 2.
    assert "bigfish: +0.50 over 3 runs" in text
    assert "frames trained: 200, 300" in text


def test_games_are_never_correlated_with_each_other():
    text = compare([run([0.1], {100: 1.0}), run([0.2], {100: 2.0}, env="maze")])
    assert "bigfish: NaN over 1 runs" in text
    assert "maze: NaN over 1 runs" in text
    assert "env: bigfish, maze" in text


def test_runs_that_differ_in_temperature_and_seed_alone_are_said_to():
    runs = [run([0.1], {100: 1.0}), run([0.2], {100: 2.0}, seed=1, beta=0.3)]
    assert "The runs differ in nothing else." in compare(runs)
    text = compare([*runs, run([0.1], {100: 1.0}, seed=2, neighbour_count=7)])
    assert "differ in more than temperature" in text
    assert "objective.neighbour\\_count: 3, 7" in text


def test_the_temperature_of_proto_rl_is_its_only_one():
    config = plain("proto")
    runs = [
        run([0.1], {100: 1.0})._replace(
            config=replace(config, seed=seed, objective=replace(config.objective, temperature=beta))
        )
        for seed, beta in enumerate((0.1, 0.3))
    ]
    assert [temperatures.temperature(one) for one in runs] == ["0.1", "0.3"]
    assert "The runs differ in nothing else." in compare(runs)


def test_a_single_run_is_drawn_though_others_could_not_be_averaged_with_it():
    axes = Figure().subplots()
    temperatures.lines(axes, [(np.array([1.0]), np.array([2.0]))], "red", False, "x")
    assert len(axes.lines) == 1


def test_a_mean_is_of_lines_at_the_same_frames_alone():
    one, two = np.array([1.0, 2.0]), np.array([3.0, NAN])
    frames = np.array([100, 200])
    mean = mean_line([(frames, one), (frames, two)])
    assert mean is not None
    np.testing.assert_array_equal(mean[1], [2, NAN])
    assert mean_line([(frames, one), (frames + 1, two)]) is None
    assert mean_line([(frames, one), (frames[:1], two[:1])]) is None
    assert mean_line([]) is None


@pytest.mark.parametrize(
    ("second", "averaged"),
    [
        (run([0.3], {100: 2.0}, seed=1), True),
        (run([0.3], {100: 2.0}, seed=0), False),  # the same seed twice is no second sample
        (run([0.3], {100: 2.0}, seed=1, neighbour_count=7), False),
        (run([0.3, 0.4], {100: 2.0, 200: 2.0}, seed=1), False),  # another budget
    ],
)
def test_only_runs_that_differ_in_their_seed_are_averaged(second, averaged, monkeypatch):
    asked = []

    def lines(axes, runs, colour, averaged, label):
        asked.append((len(runs), averaged, label))

    monkeypatch.setattr(temperatures, "lines", lines)
    temperatures.draw([run([0.1], {100: 1.0}), second])
    assert asked == [(2, averaged, "temperature 0.1")] * 2


def test_a_picture_is_drawn_even_of_runs_without_evaluations():
    picture = temperatures.draw([run([0.1, NAN], {}), run([0.2, 0.3], {}, seed=1, env="maze")])
    assert picture.startswith(b"\x89PNG")
