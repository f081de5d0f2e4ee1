"""The house: which room may know of which; circles and private names, too."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import crosstraj

ROOT = Path(crosstraj.__file__).parent
# From the ground up: a module may import from its own storey and from those before it.
STOREYS = (
    {"errors", "randomness", "cores", "disk"},
    *({"nn"}, {"health"}, {"envs"}, {"data"}, {"theory"}, {"objectives", "policies"}, {"config"}),
    *({"runs"}, {"learning"}, {"clips"}, {"loop"}, {"outside"}, {"report"}, {"analysis"}),
    *({"experiments"}, {"cli"}),
)
STOREY = {room: number for number, rooms in enumerate(STOREYS) for room in rooms}
PLACES = {path: path.relative_to(ROOT.parent).with_suffix("").parts for path in ROOT.rglob("*.py")}
MODULES = {".".join(place).removesuffix(".__init__"): path for path, place in PLACES.items()}


def room(module: str) -> str:
    return (*module.split("."), "")[1]


def imports(path: Path) -> set[tuple[str, str]]:
    """(module, name) of what a file imports of ours; for types alone and inside functions, too."""
    nodes = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ImportFrom)]
    names = {(node.module or "", alias.name) for node in nodes for alias in node.names}
    return {(module, name) for module, name in names if module.split(".")[0] == "crosstraj"}


def needs(path: Path) -> set[str]:
    """The modules behind them: `from package import module` names one as well."""
    pairs = {(module, f"{module}.{name}") for module, name in imports(path)}
    return {whole if whole in MODULES else module for module, whole in pairs}


def test_imports_point_one_way_and_in_no_circle() -> None:
    pairs = [(room(n), room(other)) for n, path in MODULES.items() for other in needs(path)]
    assert [(a, b) for a, b in pairs if a in STOREY and STOREY.get(b, 0) > STOREY[a]] == []
    assert {*STOREY, "__init__", "__main__"} == {place[1] for place in PLACES.values()}
    graph = {name: needs(path) - {name} for name, path in MODULES.items()}
    assert len([*TopologicalSorter(graph).static_order()]) == len(MODULES)  # or it names a circle


def test_no_private_name_leaves_its_package() -> None:
    taken = {(r, m, n) for path, (_, r, *_) in PLACES.items() for m, n in imports(path)}
    private = {(r, m, n) for r, m, n in taken if n[0] == "_" and not n.startswith("__")}
    assert {(r, m, n) for r, m, n in private if room(m) != r} == set()
