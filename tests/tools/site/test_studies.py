"""How long experiments take, from values worked out by hand."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from crosstraj.config.presets import preset
from tools.main_table_cost import counted
from tools.site import studies
from tools.site.studies import NBSP, first_machine, mflops, millions, processor_hours, span


def test_time_in_the_unit_that_a_person_would_say() -> None:
    said = [span(hours).replace(NBSP, " ") for hours in (0.001, 0.5, 1.5, 47.9, 48, 24_000)]
    assert [millions(n) for n in (65_536, 3_276_800, 16_640_000_000)] == ["0.1", "3.3", "16,640"]
    assert said == ["1 minute", "30 minutes", "1.5 hours", "47.9 hours", "2 days", "1,000 days"]


def test_operations_follow_encoder_epochs_and_who_trains_the_encoder() -> None:
    ppo = preset("ppo", "paper")
    assert mflops(ppo) == pytest.approx(242.3)
    assert mflops(replace(ppo, encoder="laptop")) == pytest.approx(242.3 / 4)
    assert mflops(replace(ppo, encoder_grad="none")) == pytest.approx(62.2)
    thrice = replace(ppo, policy=replace(ppo.policy, epochs=3))
    assert mflops(thrice) == pytest.approx(242.3 + 2 * 180.1)
    joint = preset("curl", "paper")  # the objective has as many passes as the policy
    thrice = replace(joint, policy=replace(joint.policy, epochs=3))
    assert mflops(thrice) == pytest.approx(62.2 + 3 * (486.4 - 62.2))
    assert mflops(preset("situations", "default")) is None  # never counted


def test_the_main_table_takes_what_its_own_command_says() -> None:
    machine, cores = first_machine()
    work = sum(row.petaflops for row in counted())  # with PSE's experts, who are in no file
    (table,) = [s for s in studies.studies() if s.plan.name == "main_table"]
    assert table.hours / cores == pytest.approx(machine.hours(work))
    assert f"| {table.hours / cores:,.0f} |" in Path("docs/cluster.md").read_text()
    assert (table.timed, studies.line(table)[-1]) == (0, "counting")
    assert processor_hours(1e9) == pytest.approx(cores * machine.hours(1))
    assert (table.runs, table.unknown) == (1920, 0)


def test_a_file_has_been_run_as_far_as_its_table_says_or_its_kept_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tables are made of runs that are kept and of others; runs are kept before there is one."""
    begun = [
        ("", 0),
        ("30 of 30 runs are finished", 0),
        ("**Partial**: 1 of 18 runs are finished, 0 more have begun", 1),
        ("", 9),
        ("", 7),
    ]
    some = tuple(
        study._replace(state=state, kept=kept, runs=27 if kept == 9 else 7)
        for study, (state, kept) in zip(studies.studies(), begun, strict=False)
    )
    monkeypatch.setattr(studies, "studies", lambda: some)
    first, _, third, fourth, _ = map(studies.place, some)
    assert studies.never_run().splitlines() == [
        "1 of 5 files have never been run:",
        "",
        f"- `{first}`: {some[0].plan.title}",
        "",
        "2 more have been run in part:",
        "",
        f"- `{third}`: 1 of 18 runs are finished",
        f"- `{fourth}`: 9 of 27 runs are kept",
    ]
    names = [study.plan.name for study in some]
    assert studies.in_short() == (
        f"Never run so far: `{names[0]}`. Run in part: `{names[2]}`, `{names[3]}`. "
        "All others have been run."
    )


def test_kept_runs_are_counted_by_the_files_that_are_there() -> None:
    found = {study.plan.name: study for study in studies.studies()}
    assert (found["learn_controls"].kept, found["learn_controls"].runs) == (9, 27)
    assert (found["learn"].kept, found["learn"].whole) == (30, True)


def test_the_page_on_experiments_says_which_have_been_run() -> None:
    page = Path("docs/experiments.md").read_text()
    assert studies.in_short() in page, (
        f"say in docs/experiments.md, below the list of files: {studies.in_short()}"
    )


def test_a_sum_that_leaves_out_runs_is_said_to_be_less_than_the_whole() -> None:
    study = studies.studies()[0]._replace(timed=3.0, reckoned=0.0, unknown=0)
    assert studies.line(study)[3:] == [f"1.5{NBSP}hours", f"6{NBSP}minutes", "timed runs"]
    *spans, known = studies.line(study._replace(unknown=4))[3:]
    assert [words.replace(NBSP, " ") for words in spans] == [
        *("more than 1.5 hours", "more than 6 minutes")
    ]
    assert known == "timed runs; without 4 runs, of which neither is known"
    nothing = studies.line(study._replace(timed=0.0, unknown=4))[3:]
    assert nothing == ["?", "?", "nothing: no such run was timed or counted"]


def test_its_command_finds_the_module_not_yet_imported() -> None:
    """Python warns of a module that its own package imports before it is run."""
    code = "import sys, tools.site; sys.exit('tools.site.studies' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
