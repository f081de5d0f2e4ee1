"""What a driver costs for each of many runs, and when it is started again: stand-ins, no training.

Judged by the processor's time, which is the driver's own, whatever else the machine does.
"""

import time
from typing import Any

from benchmarks.cluster import measure, simulated
from tests.torture_cluster.trial import Result

MS_PER_RUN = 50.0  # of the driver, at most
RESTART_SECONDS = 10.0  # of the processor, until a driver that is started again knows its place
GROWTH = 1.5  # what a run may cost among the most, beside one among the fewest


def stand_ins(sizes: list[int], end: float) -> list[Result]:
    cluster, rows, results = simulated(nodes=4, cpus=4), list[dict[str, Any]](), list[Result]()
    try:
        for runs in sorted(sizes):
            began = time.monotonic()
            if began > end:
                results.append(Result(f"{runs} stand-ins", "", runs, 0, None, None,
                                      ("no time was left",), 0.0))  # fmt: skip
                continue
            print(f"stand-ins for {runs} runs", flush=True)
            row = measure(runs, cluster.address, seconds=1.0)  # raises if one is not done
            rows.append(row)
            done = (
                f"the driver: {row['driver_ms_per_run']:.1f} ms for each, "
                f"{row['driver_mib']:.0f} MiB, {row['restart_processor_seconds']:.1f} s to find "
                "its place again"
            )
            seconds = time.monotonic() - began
            results.append(Result(f"{runs} stand-ins", done, runs, runs, None, None,
                                  faults_of(row, rows[0]), seconds))  # fmt: skip
    finally:
        cluster.shutdown()
    return results


def faults_of(row: dict[str, Any], fewest: dict[str, Any]) -> tuple[str, ...]:
    cost, first = row["driver_ms_per_run"], fewest["driver_ms_per_run"]
    again = row["restart_processor_seconds"]
    bounds = {
        f"the driver takes {cost:.1f} ms for a run; at most {MS_PER_RUN:g}": cost <= MS_PER_RUN,
        f"{again:.1f} s to start it again; below {RESTART_SECONDS:g}": again < RESTART_SECONDS,
        f"a run takes {cost / first:.1f} times the driver's time that it takes among "
        f"{fewest['runs']}; at most {GROWTH:g}": cost <= GROWTH * first,
    }
    return tuple(sentence for sentence, holds in bounds.items() if not holds)
