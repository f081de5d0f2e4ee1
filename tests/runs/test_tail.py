"""The end of a file: lines backwards, the last row of a kind, the last words."""

import os
from pathlib import Path

import pytest

from crosstraj.runs import tail
from crosstraj.runs.tail import last_row, last_words, lines_backwards
from tests.runs.logs import judged, make, update


@pytest.mark.parametrize("block", [1, 2, 3, 7, 2**16])
def test_lines_come_backwards_whole_whatever_the_block(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "BLOCK", block)
    for text in (b"", b"x", b"\n", b"a\n", b"a\nbb", b"a\nbb\n", b"\n\na\n\n", b"abc\n" * 5 + b"d"):
        (tmp_path / "log").write_bytes(text)
        whole = text.split(b"\n")[:-1]
        assert list(lines_backwards(tmp_path / "log")) == whole[::-1], text


def test_the_last_row_of_a_kind_is_found_however_far_back(tmp_path: Path) -> None:
    run = make(tmp_path / "run", judged(0, 1.5), *map(update, range(1, 9000)))
    log = run / "metrics.jsonl"
    assert log.stat().st_size > 2 * tail.BLOCK
    assert last_row(log) == update(8999)
    assert last_row(log, "evaluation") == judged(0, 1.5)
    with log.open("a") as torn:
        torn.write('{"row":"evaluation","frames":90')
    assert last_row(log) == update(8999), "a row without its end is being written"
    assert last_row(log, "phase") is None


def test_last_words_are_the_last_line_that_says_something(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"one\ntwo \xff\n\n  \n")
    assert last_words(tmp_path / "log") == "two \ufffd"
    assert last_words(tmp_path / "absent") == ""
    os.mkfifo(tmp_path / "pipe")
    assert last_words(tmp_path / "pipe") == ""
