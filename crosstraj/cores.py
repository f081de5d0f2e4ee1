"""How many cores this process may use, and how much memory there is."""

import os


def usable_cores() -> int:
    """Those of its affinity mask where the system has one (macOS has not), else all."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory() -> float:
    """Of the machine, in GiB."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
