"""The card of an agent: what it says, and that no name in it becomes markup."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from crosstraj.analysis.export.card import Subject, card, head
from crosstraj.config.values import Config
from crosstraj.learning.load import read_config
from crosstraj.runs import agent_files, shipped
from crosstraj.runs.log import read_rows
from crosstraj.runs.read import stored

HOSTILE = '"}]\n---\n# <script>alert(1)</script> [x](http://evil) ![y](z) {{x}} `|`'
EVALUATION = {
    "frames": 900,
    **{"seen_return": 8.0, "seen_stderr": 0.5, "unseen_return": 6.25, "unseen_stderr": 0.4},
}


def subject(**changes: object) -> Subject:
    config = Config(env="coinrun", method="ctrl", frames=1000, seed=7)
    whole = Subject("coinrun-ctrl", config, 1000, EVALUATION, {"torch": "2.13.0"}, ("clip.webp",))
    return whole._replace(**changes)


def test_the_head_is_what_a_hub_reads():
    lines = head(subject()).splitlines()
    assert "library_name: crosstraj" in lines
    assert '- "reinforcement-learning"' in lines
    assert '- "coinrun"' in lines
    results = [json.loads(line.removeprefix("  - ")) for line in lines if line.startswith("  - ")]
    assert [one["metrics"][0]["value"] for one in results] == ["8.00 +/- 0.50", "6.25 +/- 0.40"]
    assert [one["metrics"][0]["type"] for one in results] == ["mean_reward"] * 2
    assert results[1]["dataset"]["name"] == "coinrun, unseen levels"


def test_budget_seed_levels_machine_and_random_play_are_said():
    text = card(subject())
    assert "1,000 frames (its whole budget) from one seed, 7" in text
    assert "levels 0 to 199 of coinrun, easy mode" in text
    assert "torch 2.13.0" in text
    assert "it says nothing of other seeds" in text
    assert "| unseen | 6.25 | 0.40 | 2.97 |" in text  # random play is kept in results/random
    assert "![The agent on levels" in text
    short = card(subject(frames=400, evaluation={}, facts={}))
    assert "of a budget of 1,000: training had not ended" in short
    assert "nothing is known of how well it plays" in short
    assert "trained on: not recorded" in short
    assert "model-index" not in short


def test_the_machine_is_told_with_its_engine_and_precision_where_they_are_known():
    facts = {"torch": "2.13.0", "engine": "procgen-mirror 0.10.7", "bfloat16": True}
    assert "trained on: torch 2.13.0, engine procgen-mirror 0.10.7, precision bf16\n" in card(
        subject(facts=facts)
    )
    assert "torch 2.13.0, precision fp32\n" in card(
        subject(facts={"torch": "2.13.0", "bfloat16": False})
    )
    assert "trained on: torch 2.13.0\n" in card(subject())  # of an older run


@pytest.mark.parametrize("name", shipped.agents())
def test_the_cards_of_agents_that_come_along_are_what_this_code_writes(name: str):
    place = shipped.named(Path("agents", name))
    rows = [row for row in read_rows(place / "metrics.jsonl") if row["row"] == "evaluation"]
    frames, facts = stored(place)["agent"]["frames"], agent_files.facts_of(place)
    told = Subject(name, read_config(place), frames, rows[-1], facts, ("clip.webp",), "mit")
    assert (place / "README.md").read_text() == card(told)
    assert facts["torch"]
    assert (place / "clip.webp").stat().st_size < 3_000_000


def test_a_licence_is_stated_by_its_owner_alone():
    mit = card(subject(licence="mit"))
    assert '\nlicense: "mit"\n' in mit
    assert "- licence of the weights: mit\n" in mit
    assert "license:" not in card(subject())
    assert "- licence of the weights: not stated\n" in card(subject())
    top, rest = card(subject(licence=HOSTILE)).removeprefix("---\n").split("\n---\n", 1)
    (line,) = [line for line in top.splitlines() if line.startswith("license: ")]
    assert json.loads(line.removeprefix("license: ")) == HOSTILE.replace("\n", " ")
    assert "<script>" not in rest


def test_a_hostile_name_stays_text():
    config = replace(subject().config, env=HOSTILE)
    for text in (card(subject(name=HOSTILE)), card(subject(name=HOSTILE, config=config))):
        top, rest = text.removeprefix("---\n").split("\n---\n", 1)
        assert "<script>" not in rest
        assert "[x](" not in rest
        assert "![y]" not in rest
        (name,) = [line for line in top.splitlines() if line.startswith("- name: ")]
        assert json.loads(name.removeprefix("- name: ")) == HOSTILE.replace("\n", " ")
