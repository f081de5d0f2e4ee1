"""The recipes for other libraries as modules; `examples` is no package of ours."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"
HEALTH = {"view_cosine", "view_rank", "code_entropy", "code_entropy_random", "codes_about_level"}


def recipe(name: str, file: Path | None = None) -> Any:
    """examples/<name>.py, or a file that is given, imported once."""
    known = f"crosstraj_recipe_{name}"
    if known not in sys.modules:
        spec = spec_from_file_location(known, file or EXAMPLES / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[known] = module = module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[known]


def same(one: Any, two: Any) -> bool:
    """Whether nested dictionaries and lists, as an optimiser's, are equal to the bit."""
    if hasattr(one, "equal") and hasattr(two, "equal"):
        return bool(one.equal(two))
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(same, one, two))
    return bool(one == two)
