"""metrics.jsonl shown in TensorBoard: a mirror, never the truth, and nothing that a run depends on.

A resumed run shows its whole log again, from the rows that are left after cutting it back to the
checkpoint, so that the mirror has each row once, however often the run was killed.
"""

import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crosstraj.health.glossary import as_markdown
from crosstraj.runs.log import Log, Warn, read_rows


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
        """Every figure of a row by its frame count, under the name of the row's kind."""
        for name, value in row.items():
            if isinstance(value, int | float) and name != "frames" and math.isfinite(value):
                self._writer.add_scalar(f"{row['row']}/{name}", value, row["frames"])
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


def show_in_tensorboard(log: Log, directory: Path, warn: Warn) -> None:
    """Mirror a log, what it holds and what will come; if that fails, now or later: say so, once."""
    try:
        mirror = TensorBoard(directory)
        for row in read_rows(log.path):
            mirror.show(row)
    except ImportError:
        warn("TensorBoard is not installed, so nothing is shown there: pip install tensorboard")
    except Exception as error:  # whatever a mirror does, the run goes on
        warn(f"nothing is shown in TensorBoard: {error}")
    else:
        log.mirror = mirror
