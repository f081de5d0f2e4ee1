"""Where kept runs lie, `results/<experiment>/<variant>/<game>-s<seed>.jsonl`, and whether they fit.

A kept run is found by what it is called, and has its values inside: one of other values than the
experiment file says now is named, and never taken for the other. Each experiment has files of its
own, also of runs that it shares with another.
"""

from pathlib import Path
from urllib.parse import quote

from crosstraj.config.dotted import differences
from crosstraj.config.stored import telling, to_dict
from crosstraj.config.values import Config
from crosstraj.errors import BadInput
from crosstraj.experiments.plan import Planned
from crosstraj.learning.load import read_values
from crosstraj.runs.read import is_kept


def kept_file(place: Path, run: Planned) -> Path:
    """The file of a run below the directory of its experiment."""
    return place / file_name(run.variant) / f"{file_name(run.game)}-s{run.seed}.jsonl"


def kept_place(file: Path) -> Path:
    """The directory of the experiment that a kept file is of."""
    return file.parent.parent


def kept_files(results: Path) -> list[Path]:
    """All kept runs of all experiments."""
    return sorted(filter(is_kept, results.glob("*/*/*.jsonl")))


def file_name(words: str) -> str:
    """Words as a readable file name, no two the same: a space is _, what is not plain is %XX.

    `slim, 32 minibatches` is `slim,_32_minibatches`, and `ctrl:paper` is `ctrl%3Apaper`.
    """
    name = quote(words, safe="-.,=+ ").replace("_", "%5F").replace(" ", "_")
    return name if not name.startswith(".") else f"%2E{name[1:]}"


def check_kept(file: Path, config: Config) -> None:
    """Refuses a kept run of other values; what does not tell runs apart may differ."""
    if not file.is_file():
        return
    there, here = (telling(values) for values in (read_values(file), to_dict(config)))
    if there != here:
        raise BadInput(
            f"{file} was kept of a run with other values ({differences(there, here)}); restore "
            "the value, call the variant something else, or remove the file"
        )
