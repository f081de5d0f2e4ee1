"""A PPO run beside OpenAI's curve: windows and milestones, from logs written by hand."""

import json
from pathlib import Path

import pytest

from crosstraj.errors import BadInput
from crosstraj.report.outside import compare


def written(place: Path, rows: list[dict[str, object]], game: str = "starpilot") -> Path:
    config = {"env": game, "preset": "procgen", "encoder": "impala", "seed": 3}
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


@pytest.mark.parametrize(("game", "frames"), [("starpilot", 300_000), ("breakout", 500_000)])
def test_what_has_no_published_counterpart_is_refused(tmp_path, game, frames):
    run = written(tmp_path, [update(frames, 1.0), judged(frames, 1.0)], game)
    with pytest.raises(BadInput, match=f"{game} at {frames:,} frames; published budgets are"):
        compare(run)
