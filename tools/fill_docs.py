"""Fill in a page: its words are a template's, its tables and numbers those of results/.

    python -m tools.fill_docs docs/learning.in.md docs/learning.md

`{{learn: table 1}}` is the first table of results/learn/table.md, `{{learn: state}}` its line on
how many runs are finished, `{{learn: ppo | starpilot | unseen_return}}` the mean of a figure over
the seeds of a variant and game in results/learn/table.json, `... | max unseen_return` (or min) the
highest that was ever recorded.
"""

import argparse
import json
import re
from pathlib import Path

from crosstraj.errors import BadInput, unknown


def fill(template: str, results: Path) -> str:
    """The page, with nothing left to fill in."""
    return re.sub(r"\{\{(\w+): (.+?)\}\}", lambda m: entry(results / m[1], m[2]), template)


def entry(place: Path, wanted: str) -> str:
    if match := re.fullmatch(r"table (\d+)", wanted):
        tables = [b for b in blocks(place) if b.startswith("|")]
        if not 0 < int(match[1]) <= len(tables):
            raise BadInput(f"{place}/table.md has {len(tables)} tables, and no {wanted}")
        return tables[int(match[1]) - 1]
    if wanted == "state":
        return next(block for block in blocks(place) if "runs are finished" in block)
    variant, game, figure = (word.strip() for word in wanted.split("|"))
    cells = json.loads((place / "table.json").read_text())["cells"]
    found = {(cell["variant"], cell["game"]): cell for cell in cells}
    if (variant, game) not in found:
        raise unknown("cell", f"{variant} | {game}", [" | ".join(pair) for pair in found])
    cell = found[variant, game]
    end, _, name = figure.rpartition(" ")
    if name not in cell["figures"] or end not in ("", "min", "max"):
        raise unknown("figure", figure, cell["figures"])
    value = cell["extremes"][name][end == "max"] if end else cell["figures"][name]["mean"]
    return f"{value:.2f}"


def blocks(place: Path) -> list[str]:
    return (place / "table.md").read_text().strip().split("\n\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("template", type=Path)
    parser.add_argument("page", type=Path)
    parser.add_argument("--results", type=Path, default=Path("results"))
    given = parser.parse_args()
    given.page.write_text(fill(given.template.read_text(), given.results))
    print(given.page)


if __name__ == "__main__":
    main()
