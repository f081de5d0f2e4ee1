"""How long is the package, and what has made it so?

    python -m tools.statements [CHECKOUT ...]           statements by room
    python -m tools.statements --commits 2f3893c..HEAD  what each commit has added, summed by PARTS

Counted are the statements of Python's grammar, without imports and docstrings: where a line is
broken, and into how many files a thing is cut, makes no difference. 2f3893c moved every module to
its room. PARTS names the commits that brought a new ability since; commits that it does not name
are listed one by one: those that mended the house, and whatever came after this list was made.
"""

import argparse
import ast
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

# First what the rooms were to bring along, then what came later.
PARTS = {
    "asked: methods of one's own, --with": "dce2b50 eba29d5 4bca241 daf868b a5fd4ea",
    "asked: check": "610efff",
    "asked: one parser, help at two levels": "e4e605a 5dfae72",
    "asked: one glossary of figures": "b64d3a8 ff943e9 8ea653b",
    "asked: one registry of methods": "12db5e7",
    "asked: kept runs found by name": "52b6cfd 6785150",
    "levels of any environment": "4c8a63f 6ce4e5a aa5ba21 ca5a03a",
    "kernels by default, doctor": "5c86aad 179746c 908a0dd 9fbacbe 84bbe6a bffb46d 5f48470",
    "the engine's own adapter": "c3b9630 7ca4c00",
    "clusters": "34bc2cc cb6b036 55b54b6 3106a94 bfcf42e 5a8fa6a 7a0289a c3addf6 9963214 5d9e530"
    " b6c69a9",
    "runs at a glance": "9abf0f9",
    "losses in other agents": "3814f1a 55d7f77 342b22d 93ddd31",
    "watch, export, first run": "5841550 0e04d2e db9df30 623753d 13435fe ebf6578 2ffc20a 45ac2d6"
    " 5c1db45 2d1f6cd b63a1e8 c561c81 0863c0c baec366 f4492aa 5204895 58b4ab7 07caac1 272c050"
    " 8447e71 aea0a25 8eadc4f",
    "a memory": "702bd70 21cb698 20b6651 91716a3",
    "situations": "f51ce49",
    "screens, precisions, costs in tables, a look": "b6cc1bc 7141cd0 e304f4f 11add19",
    "methods of today": "558b8f7 1867285 06075f1 2ebb138 2e550a8 6aca2b5 6d396e6 b5eb7ba",
    "level replay": "30d51d2 8f11fd4 14fa77f",
}


def statements(source: str) -> int:
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
    left_out = (ast.Import, ast.ImportFrom)
    said = [n for n in nodes if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)]
    return sum(not isinstance(node, left_out) for node in nodes) - len(said)


def rooms(package: Path) -> Counter[str]:
    """Statements by room; the modules that stand in none are `(root)`."""
    found = Counter[str]()
    for path in sorted(package.rglob("*.py")):
        room, *inside = path.relative_to(package).parts
        found[room if inside else "(root)"] += statements(path.read_text())
    return found


def git(*words: str) -> str:
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout


@cache
def in_blob(name: str) -> int:
    """The statements of a file as git keeps it; none where the name is all zeros: no file."""
    return statements(git("cat-file", "blob", name)) if name.strip("0") else 0


def difference(before: str, after: str) -> int:
    """How many more statements the package has in one commit than in the other."""
    words = ("--raw", "--no-renames", "--no-abbrev", before, after, "--", "crosstraj/*.py")
    changes = [line.split() for line in git("diff", *words).splitlines()]
    return sum(in_blob(new) - in_blob(old) for _, _, old, new, *_ in changes)


def history(commits: str) -> tuple[Counter[str], int]:
    """What each part has added, or each commit of none; and what merges made of it beside that."""
    part_of = {commit: part for part, names in PARTS.items() for commit in names.split()}
    found = Counter(dict.fromkeys(PARTS, 0))
    for line in git("log", "--reverse", "--no-merges", "--format=%H %s", commits).splitlines():
        commit, _, subject = line.partition(" ")
        part = part_of.get(commit[:7], f"{commit[:7]} {subject}")
        found[part] += difference(f"{commit}^", commit)
    first, _, last = commits.partition("..")
    return found, difference(first, last) - found.total()


def account(commits: str) -> str:
    """Parts, commits of none of them, and sums."""
    found, merges = history(commits)
    alone = {name: count for name, count in found.items() if count and name not in PARTS}
    sums = {
        "all": found.total() + merges,
        "asked for with the rooms": sum(n for part, n in found.items() if part.startswith("asked")),
        "commits above that no part names": sum(alone.values()),
        "merges": merges,
    }
    shown = ({part: found[part] for part in PARTS}, alone, sums)
    return "\n\n".join("\n".join(f"{n:>+7,}  {name}" for name, n in p.items()) for p in shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("checkouts", nargs="*", type=Path, default=[Path()])
    parser.add_argument("--commits", metavar="FIRST..LAST")
    given = parser.parse_args()
    if given.commits:
        print(account(given.commits))
        return
    for checkout in given.checkouts:
        found = rooms(checkout / "crosstraj")
        lines = [f"{count:>7,}  {name}" for name, count in (*found.items(), ("all", found.total()))]
        print(f"{checkout.resolve().name}:", *lines, sep="\n")


if __name__ == "__main__":
    main()
