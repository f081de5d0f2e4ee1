"""No compiler, a broken one, an unusable cache, two processes at once: all end well."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from crosstraj.errors import BadInput
from crosstraj.nn import compiler

there_is_one = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler: cc is missing")


@pytest.fixture(autouse=True)
def forgetful() -> Iterator[None]:
    compiler.forget()
    yield
    compiler.forget()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "answer.c"
    path.write_text("int answer(void) { return 42; }\n")
    return path


@pytest.mark.parametrize(
    ("program", "words"),
    [("false", "does not work: .*false failed"), ("no-such-compiler", "there is no C compiler")],
)
def test_a_missing_and_a_broken_compiler_are_one_sentence(program, words, source, monkeypatch):
    monkeypatch.setenv("CC", program)
    with pytest.raises(BadInput, match=words):
        compiler.compiled(source)


def test_a_compiler_that_starts_and_then_fails_is_quoted(source, tmp_path, monkeypatch):
    broken = tmp_path / "broken-cc"
    broken.write_text('#!/bin/sh\n[ "$1" = --version ] || { echo out of order >&2; exit 1; }\n')
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(BadInput, match=r"broken-cc failed \(out of order\)"):
        compiler.compiled(source)
    assert list((tmp_path / "cache" / "crosstraj").iterdir()) == []


@there_is_one
def test_what_is_compiled_once_is_kept(source, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert compiler.compiled(source).answer() == 42
    (built,) = (tmp_path / "cache" / "crosstraj").iterdir()
    before = built.stat().st_mtime_ns
    compiler.forget()
    assert compiler.compiled(source).answer() == 42
    assert built.stat().st_mtime_ns == before
    compiler.forget()
    source.write_text("int answer(void) { return 43; }\n")  # another source is another file
    assert compiler.compiled(source).answer() == 43


@there_is_one
def test_a_cache_that_cannot_be_written_costs_a_compilation_and_nothing_else(source, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    assert compiler.compiled(source).answer() == 42


@there_is_one
def test_a_torn_file_in_the_cache_is_not_used(source, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "whole"))
    compiler.compiled(source)
    (built,) = tmp_path.glob("whole/crosstraj/*.so")
    (tmp_path / "torn" / "crosstraj").mkdir(parents=True)
    (tmp_path / "torn" / "crosstraj" / built.name).write_bytes(b"torn")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "torn"))
    compiler.forget()
    assert compiler.compiled(source).answer() == 42


@there_is_one
def test_processes_that_compile_at_once_all_succeed_and_leave_one_file(source, tmp_path):
    """Each waits for the others between having found nothing and having compiled."""
    slow = tmp_path / "slow-cc"
    slow.write_text('#!/bin/sh\n[ "$1" = --version ] || sleep 0.5\nexec cc "$@"\n')
    slow.chmod(0o755)
    program = (
        "import sys; from pathlib import Path; from crosstraj.nn.compiler import compiled;"
        "assert compiled(Path(sys.argv[1])).answer() == 42"
    )
    given = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "CC": str(slow)}
    command = [sys.executable, "-c", program, str(source)]
    processes = [subprocess.Popen(command, env=given) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert len(list((tmp_path / "cache" / "crosstraj").iterdir())) == 1


def test_the_processor_is_described_and_asked_for_bfloat16(monkeypatch):
    for flags, has in (("fma avx512f avx512_bf16", True), ("fma avx512f", False), ("", False)):
        monkeypatch.setattr(compiler, "_told", lambda flags=flags: [("flags", flags)])
        assert compiler.has_bf16() is has
        assert flags in compiler.described()
