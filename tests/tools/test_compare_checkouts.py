"""Comparing checkouts: what counts as equal, with and without names that one side alone has."""

import json
from pathlib import Path

from tools.compare_checkouts import differing, left_behind


def left(runs: Path, rows: list[dict[str, float]], weights: bytes, frames: int) -> dict[str, Path]:
    """The files of a run that was made by hand."""
    run = runs / "a-run"
    run.mkdir(parents=True)
    (run / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (run / "weights.safetensors").write_bytes(weights)
    (run / "timing.jsonl").write_text(f"{runs}\n")  # never alike
    state = {"frames": frames, "logs": {"timing.jsonl": len(str(runs)), "metrics.jsonl": 3}}
    (run / "state.json").write_text(json.dumps(state))
    return left_behind(runs)


def test_a_byte_a_number_and_a_missing_file_are_each_seen(tmp_path: Path) -> None:
    one = left(tmp_path / "1", [{"kl": 0.1}], b"w", 8)
    same = left(tmp_path / "22", [{"kl": 0.1}], b"w", 8)
    other = left(tmp_path / "3", [{"kl": 0.1, "new": 1.0}], b"v", 9)
    assert differing(one, same, common=False) == []
    everything = ["metrics.jsonl", "state.json", "weights.safetensors"]
    assert differing(one, other, common=False) == everything
    assert differing(one, other, common=True) == ["state.json", "weights.safetensors"]
    assert differing(one, {}, common=False) == everything
    assert left_behind(tmp_path / "none") == {}
