"""Runs beside published curves: windows and milestones, from logs written by hand."""

import json
from pathlib import Path

import pytest

from crosstraj.config.dotted import as_json
from crosstraj.config.stored import to_dict
from crosstraj.config.values import Config
from crosstraj.errors import BadInput
from crosstraj.experiments.file import read
from crosstraj.experiments.jobs import prepare
from tools.outside_check import compare, heading


def written(
    place: Path,
    rows: list[dict[str, object]],
    game: str = "starpilot",
    method: str = "ppo",
    **more: object,
) -> Path:
    config = {"env": game, "method": method, "preset": "procgen", "encoder": "impala", "seed": 3}
    config |= more
    (place / "config.json").write_text(json.dumps({"config": config}))
    (place / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return place


def update(frames: int, train: float) -> dict[str, object]:
    return {"row": "update", "frames": frames, "train_return": train}


def judged(frames: int, unseen: float) -> dict[str, object]:
    return {"row": "evaluation", "frames": frames, "unseen_return": unseen, "unseen_stderr": 0.25}


def test_each_budget_has_the_train_return_before_it_and_the_evaluation_next_to_it(tmp_path):
    rows = [
        update(440_000, 99.0),  # before the last tenth
        update(460_000, 4.0),
        update(500_000, 5.0),
        judged(500_000, 3.0),
        update(515_000, 99.0),  # beyond the window
        judged(750_000, 99.0),
        update(990_000, 8.0),
        judged(1_003_520, 7.0),
    ]
    text = compare(written(tmp_path, rows))
    # OpenAI's starpilot: 4.52 / 3.78 at half a million, 7.24 / 6.32 at a million.
    assert "| 500,000 | 4.50 | 4.52 | -0.02 | 3.00 (0.25) | 3.78 | -0.78 |" in text
    assert "| 1,003,520 | 8.00 | 7.24 | +0.76 | 7.00 (0.25) | 6.32 | +0.68 |" in text
    assert len(text.splitlines()) == 6


def test_random_play_stands_below_where_it_was_measured(tmp_path):
    rows = [update(500_000, 5.0), judged(500_000, 3.0)]
    levels = to_dict(Config())["procgen"]
    text = compare(written(tmp_path, rows, procgen=levels))
    assert text.endswith("\n\nRandom play: 1.55 on seen levels, 1.48 on unseen ones.")
    assert "Random play" not in compare(written(tmp_path, rows, procgen=levels | {"mode": "hard"}))


@pytest.mark.parametrize(("game", "frames"), [("starpilot", 300_000), ("breakout", 500_000)])
def test_what_has_no_published_counterpart_is_refused(tmp_path, game, frames):
    run = written(tmp_path, [update(frames, 1.0), judged(frames, 1.0)], game)
    with pytest.raises(BadInput, match=f"{game} at {frames:,} frames; published budgets are"):
        compare(run)


def test_daac_is_held_against_its_release_on_unseen_levels_alone(tmp_path):
    rows = [
        update(990_000, 2.5),
        judged(1_000_000, 4.0),
        update(7_900_000, 24.0),
        judged(8_000_000, 20.3),
    ]
    text = compare(written(tmp_path, rows[:2], method="daac"))
    # The release's starpilot: 3.2 at a million frames, 19.8 at eight.
    assert text.startswith("DAAC, preset procgen")
    assert "| the release's |" in text
    assert "| 1,000,000 | 2.50 | – | – | 4.00 (0.25) | 3.20 | +0.80 |" in text
    assert len(text.splitlines()) == 5
    rows[2:2] = [update(m * 1_000_000, 9.0) for m in (2, 4)]
    text = compare(written(tmp_path, rows, method="daac"))
    assert "| 8,000,000 | 24.00 | – | – | 20.30 (0.25) | 19.80 | +0.50 |" in text
    assert len(text.splitlines()) == 8


def test_a_daac_run_on_a_game_without_an_early_figure_must_go_to_eight_million(tmp_path):
    run = written(tmp_path, [update(4_000_000, 1.0), judged(4_000_000, 1.0)], "coinrun", "daac")
    with pytest.raises(BadInput, match=r"coinrun at 4,000,000 .* are 8,000,000, 25,000,000"):
        compare(run)


def test_a_method_without_a_published_curve_is_refused(tmp_path):
    run = written(tmp_path, [update(500_000, 1.0), judged(500_000, 1.0)], method="ctrl")
    with pytest.raises(BadInput, match="method ctrl has no published curve here"):
        compare(run)


def test_the_runs_of_the_file_have_headings_that_tell_them_apart(tmp_path):
    plan = read(Path("experiments/ours/outside_daac.toml"))
    jobs = prepare(plan.runs(), tmp_path)
    headings = [heading(as_json(to_dict(job.config))) for job in jobs]
    assert headings == [
        "DAAC, preset source, encoder impala, bigfish, seed 0",
        "DAAC, preset source, encoder impala, policy.per_game=True, bigfish, seed 0",
        "DAAC, preset source, encoder impala, starpilot, seed 0",
    ]
