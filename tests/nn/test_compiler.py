"""No compiler, a broken one, an unusable cache, two processes at once: all end well."""

import errno
import io
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
    [
        ("false", "does not work: .*false failed"),
        ("no-such-compiler", "there is no C compiler"),
        ("gcc -DX='", "there is no C compiler"),
    ],
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
def test_who_waits_for_a_compiler_is_told_and_nobody_else(source, tmp_path, monkeypatch, capfd):
    told = "compiling answer.c for this processor, which takes some seconds: "
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for said in (f"{told}once\n", ""):  # then it is kept
        compiler.compiled(source)
        compiler.compiled(source)
        assert capfd.readouterr() == ("", said)
        compiler.forget()
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    compiler.compiled(source)
    assert capfd.readouterr() == ("", f"{told}for this run alone\n")


class Full(io.StringIO):
    def write(self, _: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


@there_is_one
def test_what_cannot_be_told_is_compiled_all_the_same(source, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    closed = io.StringIO()
    closed.close()
    for nowhere in (Full(), closed, None):
        monkeypatch.setattr(sys, "stderr", nowhere)
        assert compiler.compiled(source).answer() == 42
        assert capfd.readouterr().out == ""
        compiler.forget()
        shutil.rmtree(tmp_path / "cache")


@there_is_one
def test_a_cache_that_cannot_be_written_costs_a_compilation_and_nothing_else(source, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    library = compiler.compiled(source)
    assert library.answer() == 42
    assert "for this run alone" in compiler.kept(library)


@there_is_one
def test_a_person_without_a_home_has_it_compiled_too(source, monkeypatch):
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(compiler.Path, "home", nowhere)
    library = compiler.compiled(source)
    assert library.answer() == 42
    assert "for this run alone" in compiler.kept(library)


@there_is_one
@pytest.mark.parametrize("said", ["cc -O1", "env cc", " "])
def test_a_compiler_may_come_with_options(said, source, tmp_path, monkeypatch):
    monkeypatch.setenv("CC", said)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    library = compiler.compiled(source)
    assert library.answer() == 42
    assert compiler.kept(library) == f"compiled once, kept in {tmp_path / 'cache' / 'crosstraj'}"


def test_a_compiler_that_hangs_is_given_up(source, tmp_path, monkeypatch):
    hanging = tmp_path / "a b"  # a path with a blank is no command with options
    hanging.write_text("#!/bin/sh\nexec sleep 60\n")
    hanging.chmod(0o755)
    monkeypatch.setenv("CC", str(hanging))
    monkeypatch.setattr(compiler, "PATIENCE", 0.2)
    with pytest.raises(BadInput, match=r"a b was not done after 0\.2 seconds"):
        compiler.compiled(source)


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
    """Each compiler waits until all three have begun: none has found the file of another."""
    slow = tmp_path / "slow-cc"
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    slow.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && exec cc "$@"\n'
        f"touch {meeting}/$$\n"
        f"while [ $(ls {meeting} | wc -l) -lt 3 ]; do sleep 0.05; done\n"
        'exec cc "$@"\n'
    )
    slow.chmod(0o755)
    program = (
        "import sys; from pathlib import Path; from crosstraj.nn.compiler import compiled, kept;"
        "library = compiled(Path(sys.argv[1])); assert library.answer() == 42;"
        "assert kept(library).startswith('compiled once')"
    )
    given = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "CC": str(slow)}
    command = [sys.executable, "-c", program, str(source)]
    processes = [subprocess.Popen(command, env=given) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert len(list((tmp_path / "cache" / "crosstraj").iterdir())) == 1
    assert len(list(meeting.iterdir())) == 3


def test_the_processor_is_described_and_asked_for_bfloat16(monkeypatch):
    for flags, has in (("fma avx512f avx512_bf16", True), ("fma avx512f", False), ("", False)):
        monkeypatch.setattr(compiler, "_told", lambda flags=flags: [("flags", flags)])
        assert compiler.has_bf16() is has
        assert flags in compiler.described()
