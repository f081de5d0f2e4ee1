"""What the pages of all tables share: the heading, runs that could not be read, and the files."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crosstraj.experiments.plan import Experiment
from crosstraj.experiments.tables.results import Result
from crosstraj.report.document import as_json
from crosstraj.runs.made_by import codes_of


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
    lines[-1] += versions(results)
    return "\n".join(lines)


def versions(results: Sequence[Result]) -> str:
    """Which versions of the code made the runs, where these are several."""
    runs = Counter(code for result in results for code in set(codes_of(Path(result.directory))))
    named = ", ".join(f"{code} ({count})" for code, count in sorted(runs.items()))
    return (
        f" Several versions of the code made them (runs of each): {named}." if len(runs) > 1 else ""
    )


def unreadable(results: Sequence[Result]) -> list[str]:
    return [f"- {r.directory} could not be read: {r.trouble}" for r in results if r.trouble]


def write_page(out: Path, parts: Sequence[str], values: Mapping[str, Any]) -> list[Path]:
    """table.md of these parts, and table.json."""
    text, data = out / "table.md", out / "table.json"
    text.write_text("\n\n".join(parts) + "\n")
    data.write_text(as_json(values))
    return [text, data]
