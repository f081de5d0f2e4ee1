"""What the pages of all tables share: the heading, runs that could not be read, and the files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crosstraj.experiments.plan import Experiment
from crosstraj.experiments.tables.results import Result
from crosstraj.report.document import as_json


def heading(plan: Experiment, results: list[Result]) -> str:
    done, begun = sum(r.finished for r in results), sum(r.frames > 0 for r in results)
    state = f"{done} of {len(results)} runs are finished"
    if done < len(results):
        state = f"**Partial**: {state}, {begun - done} more have begun"
    budgets = sorted({r.budget for r in results})
    lines = [
        f"# {plan.title}",
        "",
        plan.reproduces,
        "",
        f"{state}; {' or '.join(f'{n:,}' for n in budgets)} frames per run.",
    ]
    if plan.scale < 1:
        lines[-1] += f" A trial at scale {plan.scale:g} of the whole, no result."
    return "\n".join(lines)


def unreadable(results: Sequence[Result]) -> list[str]:
    return [f"- {r.directory} could not be read: {r.trouble}" for r in results if r.trouble]


def write_page(out: Path, parts: Sequence[str], values: Mapping[str, Any]) -> list[Path]:
    """table.md of these parts, and table.json."""
    text, data = out / "table.md", out / "table.json"
    text.write_text("\n\n".join(parts) + "\n")
    data.write_text(as_json(values))
    return [text, data]
