"""How many cores this process may use."""

import os


def usable_cores() -> int:
    """Those of its affinity mask where the system has one (macOS has not), else all."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
