"""How long experiments take, from values worked out by hand."""

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


def test_files_without_a_table_have_never_been_run(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, three = studies.studies()[:3]
    states = ("", "30 of 30 runs are finished", "**Partial**: 1 of 18 runs are finished")
    some = tuple(s._replace(state=w) for s, w in zip((one, two, three), states, strict=True))
    monkeypatch.setattr(studies, "studies", lambda: some)
    assert studies.never_run().splitlines() == [
        "1 of 3 files have never been run at their full length:",
        "",
        f"- `{studies.place(one)}`: {one.plan.title}",
        "",
        "Of these there is a part:",
        "",
        f"- `{studies.place(three)}`: {states[2]}",
    ]
