"""Run directories written by hand, of which tests make reports."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from crosstraj.config.presets import preset
from crosstraj.config.stored import to_dict
from crosstraj.report.page import write_report

Row = dict[str, Any]
TITLE = "1,000 frames, easy levels 0 to 199, sampled actions"


def make_run(
    root: Path,
    name: str,
    method: str = "ppo",
    values: str = "default",
    *,
    finals: Sequence[tuple[int, float, float]] = ((1000, 2.0, 1.0),),
    episodes: Sequence[Row] = (),
    changed: Row | None = None,
    figures: Row | None = None,
    **given: Any,
) -> Path:
    """A run directory with these evaluations: frames, seen and unseen return.

    figures: what its update recorded beside the return.
    """
    config = replace(preset(method, values), **({"env": "coinrun", "frames": 1000} | given))
    stored = to_dict(config) | (changed or {})
    path = root / name
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps({"format": 1, "config": stored}))
    rows: list[Row] = [{"row": "update", "frames": 500, "train_return": 0.5} | (figures or {})]
    rows += [
        {"row": "evaluation", "frames": frames, "seen_return": seen, "unseen_return": unseen}
        for frames, seen, unseen in finals
    ]
    (path / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    if episodes:
        (path / "episodes.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in episodes))
    return path


def report_on(root: Path) -> str:
    """The Markdown page on all runs below a directory, without its escapes."""
    page = write_report([root], root.parent / "out")
    return page.with_name("report.md").read_text().replace("\\", "")
