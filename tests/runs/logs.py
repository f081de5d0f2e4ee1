"""Run directories written by hand: their logs and their owners."""

import json
from pathlib import Path
from typing import Any

CONFIG: dict[str, Any] = {"method": "ctrl", "env": "bigfish", "seed": 3, "frames": 1000}


def make(run: Path, *rows: dict[str, Any], summary: Any = None, **changes: Any) -> Path:
    """A run directory with these rows of metrics."""
    run.mkdir(parents=True)
    (run / "config.json").write_text(json.dumps({"format": 1, "config": CONFIG | changes}))
    lines = [json.dumps(row, separators=(",", ":")) + "\n" for row in rows]
    (run / "metrics.jsonl").write_text("".join(lines))
    (run / "owner.lock").write_text("")
    if summary is not None:
        (run / "summary.json").write_text(json.dumps(summary))
    return run


def update(frames: int) -> dict[str, Any]:
    return {"row": "update", "frames": frames}


def judged(frames: int, score: float, levels: str = "unseen") -> dict[str, Any]:
    return {"row": "evaluation", "frames": frames, "seen_return": 9.0, f"{levels}_return": score}
