"""How long is the package? `python -m tools.statements [CHECKOUT ...]`: statements by room.

Counted are the statements of Python's grammar, without imports and docstrings: where a line is
broken, and into how many files a thing is cut, makes no difference. SINCE names the modules of what
came after the rooms were made (2f3893c), so that the rest can be held against what was there
before; what the same features added to other modules is in the rest.
"""

import argparse
import ast
from collections import Counter
from pathlib import Path

SINCE = {
    "methods of one's own": ("config/own", "cli/check", "analysis/check_method", "analysis/epis"),
    "runs at a glance": ("cli/runs.py", "cli/clean", "runs/status", "runs/tail"),
    "clusters": ("experiments/cluster/",),
    "losses in other agents": ("outside/",),
    "levels of any environment": ("envs/level", "envs/reset_seeds", "envs/minigrid", "envs/ours"),
    "the engine's own adapter": ("envs/engine", "envs/load_engine", "envs/saved_games"),
    "kernels by default": ("learning/kernels", "nn/compiler"),
    "one parser": ("cli/parse", "cli/options", "cli/help", "cli/run_values", "config/quotas"),
    "one glossary": ("health/glossary",),
}


def statements(source: str) -> int:
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
    left_out = (ast.Import, ast.ImportFrom)
    said = [n for n in nodes if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)]
    return sum(not isinstance(node, left_out) for node in nodes) - len(said)


def counted(package: Path) -> dict[str, int]:
    """Statements by module, in the order of their names."""
    paths = sorted(package.rglob("*.py"))
    return {str(path.relative_to(package)): statements(path.read_text()) for path in paths}


def table(modules: dict[str, int]) -> str:
    """A line for each room, each later feature, and the rest."""
    rooms = Counter[str]()
    for name, count in modules.items():
        rooms[name.partition("/")[0] if "/" in name else "(root)"] += count
    later = {
        feature: sum(count for name, count in modules.items() if name.startswith(starts))
        for feature, starts in SINCE.items()
    }
    total = sum(modules.values())
    rest = {"all": total, "without what came since": total - sum(later.values())}
    parts = (rooms, {f"since: {name}": count for name, count in later.items()}, rest)
    return "\n".join(f"{count:>7,}  {name}" for part in parts for name, count in part.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkouts", nargs="*", type=Path, default=[Path()])
    for checkout in parser.parse_args().checkouts:
        print(f"{checkout.resolve().name}:\n{table(counted(checkout / 'crosstraj'))}")


if __name__ == "__main__":
    main()
