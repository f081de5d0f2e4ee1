"""The tutorial docs/own_objective.md, run: train, kill, resume, evaluate, report, explore."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from crosstraj.cli.main import main
from crosstraj.config.methods import METHODS, brought
from crosstraj.config.own import read_method
from crosstraj.config.presets import preset
from crosstraj.errors import BadInput
from crosstraj.learning.load import read_weights
from crosstraj.policies.daac import DAACConfig
from crosstraj.runs.log import read_rows
from tests.conftest import TINY
from tests.helpers import STOPPER, only

FILE = Path(__file__).parents[2] / "examples" / "own_objective.py"
WITH = ("--with", str(FILE))
TRAIN = ("train", "--method", "inverse", *TINY, "--frames", "768", "--machine.threads", "1")


@pytest.fixture(autouse=True)
def nothing_brought() -> Iterator[None]:
    yield
    forget()


def forget() -> None:
    """As in another process, which has not read the file."""
    for name in brought():
        METHODS.pop(name)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("own")
    assert main([*TRAIN, *WITH, "--saving.runs", str(runs)]) == 0
    forget()
    (directory,) = runs.iterdir()
    return directory


def test_its_figures_are_in_the_log_the_progress_line_and_the_curves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from crosstraj.report.curves import curves_figure

    assert main([*TRAIN, *WITH, "--saving.runs", str(tmp_path)]) == 0
    (directory,) = tmp_path.iterdir()
    assert "  accuracy 0." in capsys.readouterr().out
    rows = read_rows(directory / "metrics.jsonl")
    assert all("inverse/accuracy" in row for row in rows if row["row"] == "update")
    figure = curves_figure(rows, "title")
    assert figure is not None
    assert "inverse/accuracy" in [axes.get_title() for axes in figure.axes]


def test_a_killed_run_goes_on_to_the_same_bytes(run: Path, tmp_path: Path) -> None:
    command = [*TRAIN, *WITH, "--saving.runs", str(tmp_path), "--saving.checkpoint-seconds", "0"]
    killed = [sys.executable, "-c", STOPPER, "row", "2", str(int(signal.SIGKILL)), *command]
    assert subprocess.run(killed, capture_output=True).returncode == -signal.SIGKILL
    assert len(read_rows(only(tmp_path) / "metrics.jsonl")) == 2
    assert main(command) == 0
    again = only(tmp_path)
    assert (again / "metrics.jsonl").read_bytes() == (run / "metrics.jsonl").read_bytes()
    (one, _), (two, _) = read_weights(run), read_weights(again)
    assert all(one["objective"][n].equal(two["objective"][n]) for n in one["objective"])
    assert "guess.0.weight" in one["objective"]


def test_a_changed_file_does_not_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, more = tmp_path / "mine.py", ("--saving.runs", str(tmp_path / "runs"))
    file.write_text(FILE.read_text())
    assert main([*TRAIN, "--with", str(file), *more]) == 0
    file.write_text(FILE.read_text() + "\n# another\n")
    longer = ["1024" if word == "768" else word for word in TRAIN]
    assert main([*longer, "--with", str(file), *more]) == 2
    assert "method_file" in capsys.readouterr().err


def test_it_is_evaluated_reported_and_explored(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(run), *WITH, "--episodes", "2", "--envs", "2"]) == 0
    assert "inverse on starpilot" in capsys.readouterr().out
    assert main(["explore", str(run), *WITH, "--out", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").stat().st_size > 10_000
    forget()
    assert main(["report", str(run), "--out", str(tmp_path / "report")]) == 0
    assert main(["methods", *WITH]) == 0
    assert "tell the action from a frame and the next" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["evaluate", "explore"])
def test_without_its_file_a_run_is_refused_in_one_sentence(
    run: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(run)]) == 2
    said = capsys.readouterr().err
    assert "was trained with method=inverse" in said
    assert "--with FILE" in said
    assert main([*TRAIN]) == 2
    assert "a method of your own needs --with FILE" in capsys.readouterr().err
    assert json.loads((run / "config.json").read_bytes())["config"]["method"] == "inverse"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1", "it defines no METHOD"),
        ("import nothing_of_that_name", "cannot be run: ModuleNotFoundError"),
        (FILE.read_text().replace('name="inverse"', 'name="ctrl"'), "is a method of crosstraj"),
        (FILE.read_text().replace("@dataclass(frozen=True)\n", "", 1), "put @dataclass"),
        (FILE.read_text().replace("hidden: int = 256", "hidden: int"), "give hidden of"),
        (
            FILE.read_text().replace('"order"', '"orders"'),
            "has 'orders', which is no value of a run",
        ),
    ],
)
def test_a_file_that_is_no_method_is_refused_in_one_sentence(
    tmp_path: Path, text: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(text)
    method = ("train", "--method", "inverse", "--with", str(tmp_path / "mine.py"))
    assert main(method) == 2
    assert words in capsys.readouterr().err
    assert main(["check", "--with", str(tmp_path / "absent.py")]) == 2
    assert "there is no such file" in capsys.readouterr().err
    sys.modules.pop("crosstraj_with_mine", None)


def test_defaults_may_choose_the_policy_and_hold_from_the_start(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        FILE.read_text()
        .replace('"order": "joint"', '"policy.kind": "daac", "policy.value_every": 4')
        .replace('return 2, "a frame and the next"', 'return 300, "a long stretch"')
        .replace('"encoder_grad": "both"', '"encoder_grad": "both", "rollout_steps": 512')
    )
    read_method(path)
    config = preset("inverse", "default")
    assert (config.policy.kind, config.policy.value_every, config.rollout_steps) == ("daac", 4, 512)
    assert type(config.policy) is DAACConfig
    assert preset("inverse", "procgen").envs == 64  # the community's values for its policy


def test_two_files_cannot_have_one_name(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FILE.read_text())
    read_method(FILE)
    read_method(FILE)  # the same file again is the same method
    with pytest.raises(BadInput, match=r"is the name of .*own_objective\.py, too"):
        read_method(tmp_path / "mine.py")


def test_an_experiment_hands_the_file_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        'name = "mine"\ntitle = "Mine"\nreproduces = "Nothing."\nframes = 1024\n'
        'games = ["starpilot"]\nseeds = [0]\nmethods = ["inverse"]\n'
    )
    assert main(["experiment", str(file), "--list", *WITH]) == 0
    (command,) = [line for line in capsys.readouterr().out.splitlines() if line[0] != "#"]
    assert command.endswith(f"--with {FILE}")
