"""What a run leaves on disk, written so that no reader ever sees half of it.

Start with `directory.py` (one run: its owner, logs, checkpoints and summary) and `read.py` (its
logs, from there or from the file that was kept of it). `checkpoint.py` and `codec.py` are the
formats, `log.py` the lines of JSON, `lock.py` the owner, `mirrors.py` TensorBoard. `status.py`
tells what became of each run, `leftovers.py` what of it can go. Knows nothing of training. May
import: errors, config.dotted, config.stored.
"""
