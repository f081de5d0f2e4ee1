"""Logs of a run: whole rows, none lost and none doubled, whatever happens between."""

import math
import os
import random
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from crosstraj.errors import BadInput
from crosstraj.runs.directory import Run
from crosstraj.runs.log import last_figures, read_rows
from tests.runs.opened import make_state, open_run


def test_rows_are_compact_lines_in_the_order_of_their_keys(tmp_path: Path) -> None:
    with open_run(tmp_path) as run:
        run.metrics.write({"frames": 1, "b": 0.1, "a": None, "text": "ä\n"})
        run.metrics.write({"loss": torch.tensor(0.5), "n": np.int64(3), "x": np.float64(0.1)})
        for bad in (torch.zeros(2), np.zeros(3), {1, 2}, b"x"):
            with pytest.raises(TypeError, match="a row holds plain values"):
                run.metrics.write({"bad": bad})
    assert (tmp_path / "metrics.jsonl").read_bytes() == (
        b'{"frames":1,"b":0.1,"a":null,"text":"\\u00e4\\n"}\n{"loss":0.5,"n":3,"x":0.1}\n'
    )


def test_a_row_without_its_end_is_not_read_and_a_missing_log_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    assert read_rows(path) == []
    for text, rows in (("", 0), ('{"a"', 0), ('{"a":1}', 0), ('{"a":1}\n', 1), ("{}\n{}\n{", 2)):
        path.write_text(text)
        assert len(read_rows(path)) == rows
    path.write_text('{"a"\n{}\n')
    with pytest.raises(BadInput, match="not JSON"):
        read_rows(path)


def test_the_last_figures_are_numbers_up_to_the_frames_asked_for() -> None:
    rows = [
        {"row": "update", "frames": 1, "rank": 5.0, "cosine": 0.5, "words": "x"},
        {"row": "update", "frames": 2, "rank": 7.0, "cosine": math.nan},
        {"row": "evaluation", "frames": 2, "score": 3},
    ]
    assert last_figures(rows) == {"rank": 7.0, "score": 3.0}
    assert last_figures(rows, 1) == {"rank": 5.0, "cosine": 0.5}


def test_an_observer_reads_1000_times_and_sees_no_torn_row(tmp_path: Path) -> None:
    over = threading.Event()

    def train(run: Run) -> None:
        step = 0
        while not over.is_set():
            step += 1
            run.metrics.write({"step": step, "text": "x" * (step % 997)})
            if step % 50 == 0:
                run.save(make_state(step), step)
            if step % 500 == 0:  # a life ends, and the next one cuts the log
                run.metrics.cut(0)
                step = 0
            time.sleep(1e-5)

    with open_run(tmp_path) as run:
        writer = threading.Thread(target=train, args=(run,))
        writer.start()
        most = 0
        for _ in range(1000):
            rows = read_rows(tmp_path / "metrics.jsonl")
            most = max(most, len(rows))
            assert all(len(row["text"]) == row["step"] % 997 for row in rows)
        over.set()
        writer.join()
    assert most > 10


def test_rows_after_the_checkpoint_are_cut_and_none_is_lost_or_doubled(tmp_path: Path) -> None:
    for life in range(5):
        with open_run(tmp_path) as run:
            state = run.restore()
            step = state["step"] if state else 0
            assert step == 2 * life
            assert state is None or list(state) == ["weights", "step"]
            for log in (run.metrics, run.timing, run.episodes):
                assert [row["step"] for row in read_rows(log.path)] == [*range(1, step + 1)]
            for now in range(step + 1, step + 4):  # three rows, saved after the second
                for log in (run.metrics, run.timing, run.episodes):
                    log.write({"step": now})
                if now == step + 2:
                    assert run.save(make_state(now), now)
            with open(tmp_path / "metrics.jsonl", "a") as torn:
                torn.write('{"step":')


def test_30_kills_at_random_moments_lose_and_double_no_row(tmp_path: Path) -> None:
    def live(run: Run, step: int) -> None:
        while True:
            step += 1
            run.metrics.write({"step": step, "text": "x" * 100})
            if step % 3 == 0:
                run.save(make_state(step), step)

    dice, step, kills = random.Random(0), 0, 0
    while kills < 30 or step <= 30:  # a busy machine may take more of them to get so far
        kills += 1
        child = os.fork()
        if child == 0:
            try:
                with open_run(tmp_path) as run:
                    state = run.restore()
                    live(run, state["step"] if state else 0)
            finally:
                os._exit(1)
        time.sleep(dice.uniform(0.0, 0.05))
        os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        with open_run(tmp_path) as run:
            state = run.restore()
            assert (state["step"] if state else 0) >= step
            step = state["step"] if state else 0
            rows = read_rows(tmp_path / "metrics.jsonl")
            assert [row["step"] for row in rows] == [*range(1, step + 1)]


def test_without_a_checkpoint_the_logs_begin_again(tmp_path: Path) -> None:
    with open_run(tmp_path) as run:
        run.metrics.write({"a": 1})
        assert run.restore() is None
        assert (tmp_path / "metrics.jsonl").read_bytes() == b""


def test_a_log_that_is_not_the_one_of_the_checkpoint_is_refused(tmp_path: Path) -> None:
    with open_run(tmp_path) as run:
        for log in (run.metrics, run.episodes):
            log.write({"a": 1})
        run.save(make_state(1), 1)
        for log in (run.metrics, run.episodes):
            log.write({"a": 2})
        path = tmp_path / "episodes.jsonl"
        for damage in (b"", b'{"a":1}', b'{"a": 1}\n{"a":2}\n'):
            path.write_bytes(damage)
            with pytest.raises(BadInput, match=r"episodes\.jsonl is damaged: it has .* bytes"):
                run.restore()
            assert len(read_rows(tmp_path / "metrics.jsonl")) == 2, "nothing was cut"
