"""What a run has recorded, read from its run directory or from the one file that was kept of it.

A kept file is JSON lines: first a row `run` with the format, the values and the summary; then the
rows of metrics.jsonl; then those of timing.jsonl as rows `timing`. That is all that tables are made
of: no weights, no single episodes.
"""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from crosstraj.runs.log import read_rows

Rows = list[dict[str, Any]]


def is_kept(path: Path) -> bool:
    """Has the path the name of a kept file, <game>-s<seed>.jsonl? It is not opened."""
    return re.search(r"-s\d+\.jsonl$", path.name) is not None


def kept_variant(path: Path) -> str:
    """The variant that a kept file is of, read off its directory; "" for a run directory."""
    return unquote(path.parent.name.replace("_", " ")) if is_kept(path) else ""


def stored(run: Path) -> dict[str, Any]:
    """What config.json holds, or the first row of a kept file: the format and the values."""
    if not run.is_file():
        found: dict[str, Any] = json.loads((run / "config.json").read_bytes())
        if not isinstance(found, dict):
            raise ValueError("config.json is no object")
        return found
    with run.open("rb") as file:
        found = json.loads(file.readline())
    if not isinstance(found, dict) or found.get("row") != "run":
        raise ValueError("it does not begin with the values of a run")
    return found


def without_place(config: dict[str, Any]) -> dict[str, Any]:
    """The values without where the run lay, which says something of its machine alone."""
    return config | {"saving": config["saving"] | {"runs": "runs"}}


def summary(run: Path) -> dict[str, Any]:
    """What the run wrote at its end; OSError where there is none."""
    if run.is_file():
        found: dict[str, Any] = stored(run)["summary"]
        return found
    found = json.loads((run / "summary.json").read_bytes())
    return found


def metrics(run: Path) -> Rows:
    if run.is_file():
        return [row for row in read_rows(run) if row["row"] not in ("run", "timing")]
    return read_rows(run / "metrics.jsonl")


def timing(run: Path) -> Rows:
    if not run.is_file():
        return read_rows(run / "timing.jsonl")
    rows = [row for row in read_rows(run) if row["row"] == "timing"]
    return [{name: value for name, value in row.items() if name != "row"} for row in rows]


def as_kept(directory: Path) -> bytes:
    """The kept file of a finished run directory."""
    values = stored(directory)
    config = without_place(values["config"])
    first = {"row": "run", "format": values["format"], "config": config}
    first |= {"code": values["code"]} if "code" in values else {}
    times = [{"row": "timing", **row} for row in timing(directory)]
    if not times:
        raise ValueError("timing.jsonl is missing, or empty")
    rows = [first | {"summary": summary(directory)}, *metrics(directory), *times]
    return b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows)
