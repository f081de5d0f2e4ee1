"""metrics.jsonl shown in TensorBoard and in W&B: mirrors, never the truth; no run depends on one.

A resumed run shows its whole log again, from the rows that are left after cutting it back to the
checkpoint, so that a mirror has each row once, however often the run was killed. W&B keeps what it
was given: there a resumed run goes on under the same id, and rows that it has are not shown again.
Offline each process keeps a run of its own, the newest of which is whole.
"""

import hashlib
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from crosstraj.config.stored import to_dict
from crosstraj.config.values import Config
from crosstraj.health.glossary import as_markdown
from crosstraj.runs.directory import Run
from crosstraj.runs.log import Log, Mirror, Warn, read_rows

PROJECT = "crosstraj"  # W&B's; WANDB_PROJECT names another
PACKAGE = {"TensorBoard": "tensorboard", "W&B": "wandb"}


def figures_of(row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Every finite figure of a row, under the name of the row's kind: update/entropy."""
    for name, value in row.items():
        if isinstance(value, int | float) and name != "frames" and math.isfinite(value):
            yield f"{row['row']}/{name}", value


class TensorBoard:
    """Give it a directory of its own: what an earlier process has shown there is removed."""

    def __init__(self, directory: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        if directory.is_symlink():  # of a stranger's run: it could lead anywhere
            directory.unlink()
        shutil.rmtree(directory, ignore_errors=True)
        self._writer = SummaryWriter(str(directory))
        self._writer.add_text("figures", as_markdown())  # what the names of the curves mean

    def show(self, row: Mapping[str, Any]) -> None:
        """Every figure of a row by its frame count."""
        for name, value in figures_of(row):
            self._writer.add_scalar(name, value, row["frames"])
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class WandB:
    """A run of Weights & Biases with the name of the run directory, and frames as its steps."""

    def __init__(self, directory: Path, values: Mapping[str, Any]) -> None:
        import wandb

        place = directory / "wandb"
        if place.is_symlink():
            place.unlink()
        place.mkdir(exist_ok=True)  # else it takes a temporary directory
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=directory.name,
            id=hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:16],
            resume="allow",
            dir=str(directory),
            config=dict(values),
            settings=wandb.Settings(silent=True, console="off", disable_git=True),
        )
        self._run.define_metric("frames")
        self._run.define_metric("*", step_metric="frames")
        self._run.config.update({"figures": as_markdown()}, allow_val_change=True)
        self._shown = int(self._run.summary.get("rows", 0) or 0)  # by an earlier process
        self._rows = 0

    def show(self, row: Mapping[str, Any]) -> None:
        self._rows += 1
        if self._rows > self._shown:
            known = {"frames": row["frames"], "rows": self._rows}
            self._run.log({**dict(figures_of(row)), **known})

    def close(self) -> None:
        self._run.finish()


class Several:
    """Mirrors of one log, by name; one that breaks is named and left out, and the others go on."""

    def __init__(self, mirrors: Mapping[str, Mirror], warn: Warn) -> None:
        self._mirrors, self._warn = dict(mirrors), warn

    def show(self, row: Mapping[str, Any]) -> None:
        for name, mirror in [*self._mirrors.items()]:
            try:
                mirror.show(row)
            except Exception as error:  # whatever a mirror does, the run goes on
                self._warn(f"rows are no longer shown in {name}: {error}")
                del self._mirrors[name]

    def close(self) -> None:
        for name, mirror in self._mirrors.items():
            try:
                mirror.close()
            except Exception as error:
                self._warn(f"{name} may lack the last rows: {error}")


def show_elsewhere(run: Run, config: Config) -> None:
    """Mirror a run's metrics where its values ask for it."""
    directory, makers = run.directory, dict[str, Callable[[], Mirror]]()
    if config.saving.tensorboard:
        makers["TensorBoard"] = lambda: TensorBoard(directory / "tensorboard")
    if config.saving.wandb:
        makers["W&B"] = lambda: WandB(directory, to_dict(config))
    mirror_in(run.metrics, makers, run.warn)


def mirror_in(log: Log, makers: Mapping[str, Callable[[], Mirror]], warn: Warn) -> None:
    """Mirror a log, what it holds and what will come; if that fails, now or later: say so, once."""
    mirrors: dict[str, Mirror] = {}
    for name, make in makers.items():
        try:
            mirror = make()
            for row in read_rows(log.path):
                mirror.show(row)
        except ImportError:
            warn(f"{name} is not installed, so nothing is shown there: pip install {PACKAGE[name]}")
        except Exception as error:  # whatever a mirror does, the run goes on
            warn(f"nothing is shown in {name}: {error}")
        else:
            mirrors[name] = mirror
    if mirrors:
        log.mirror = Several(mirrors, warn)
