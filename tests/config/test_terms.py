"""Equal terms: what is not the method is the same for all, or is named here with its reason."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crosstraj.config.dotted import dotted
from crosstraj.config.methods import METHODS
from crosstraj.config.presets import plain, preset
from crosstraj.config.stored import to_dict
from crosstraj.config.values import Config
from crosstraj.objectives import NoObjective
from tests.objectives.every_method import learner_for, rollout_for, small, update

OWN = {"method", "encoder_grad", "order", "phases"}  # what makes a method; and all of `objective`
# The other values in which a method's default differs from PPO's on the same game, and why.
ALLOWED = {
    ("atc", "split_at"): "the method: the policy's gradient stops below the map",
    ("ctrl", "representation.learning_rate"): "of the objective's own heads",
    ("ctrl", "representation.encoder_rate"): "how far the objective moves the encoder",
    ("situations", "policy.stretch"): "its minibatches are PPO's: PPO with the same is the control",
    ("situations", "policy.advantages"): "the same",
    ("situations", "representation.learning_rate"): "of the objective's own heads",
    ("situations", "representation.max_ratio"): "how far the objective moves the encoder",
    ("daac", "policy.kind"): "the method is a policy",
    ("daac", "policy.value_epochs"): "the method",
    ("daac", "policy.value_every"): "the method",
    ("daac", "policy.value_weight"): "the method: no value loss on the policy network",
    ("daac", "policy.advantage_weight"): "the method",
    ("daac", "policy.per_game"): "the method: off",
    ("daac", "policy.advantages"): "the method: over the rollout, always",
}
ALLOWED |= {
    ("ppg", f"policy.{name}"): "the method"
    for name in (
        *("kind", "value_epochs", "value_weight", "advantages"),
        *("auxiliary_every", "auxiliary_epochs", "clone_weight"),
    )
}
ALLOWED |= {("idaac", value): why for (method, value), why in ALLOWED.items() if method == "daac"}
PAPER = {key: why for key, why in ALLOWED.items() if key[0] != "ctrl"} | {
    ("proto", "frames"): "the paper: 8M in each phase",
    ("diayn", "frames"): "the same",
}
PROCGEN = ALLOWED | {
    ("daac", "policy.epochs"): "its release has 1 where train-procgen's PPO has 3",
    ("idaac", "policy.epochs"): "the same",
    ("ppg", "policy.epochs"): "the same",
}
RECIPE = PROCGEN | {
    (method, "representation.minibatches"): "as many as the policy's: both step at once"
    for method in ("curl", "drac", "driml", "idaac", "proto", "pse", "situations", "spr")
}
# The objectives that do not pass over a rollout as often as PPO does, by preset: how often.
ONCE = {"atc": 1, "ctrl": 1, "dbc": 1, "diayn": 1, "idaac": 1}  # PPO: 3
PASSES: dict[str, dict[str, int]] = {"default": ONCE, "procgen": ONCE, "paper": {}}


def values_of(config: Config) -> dict[str, Any]:
    """All values by dotted name, those of the objective left out."""
    values = dotted(to_dict(config))
    return {k: v for k, v in values.items() if k.split(".")[0] not in ("objective", "preset")}


def differences(name: str) -> set[tuple[str, str]]:
    """(method, value) in which a method is not as PPO is, and which is not its own."""
    plain, found = values_of(preset("ppo", name)), set()
    for method in METHODS:
        values = values_of(preset(method, name))
        keys = {key for key in plain | values if plain.get(key) != values.get(key)}
        found |= {(method, key) for key in keys - OWN}
    return found


@pytest.mark.parametrize(
    ("name", "allowed"), [("default", RECIPE), ("procgen", PROCGEN), ("paper", PAPER)]
)
def test_methods_differ_in_what_is_named_here_and_in_nothing_else(name, allowed):
    assert differences(name) == allowed.keys()


def passes(config: Config) -> int:
    """How often the objective goes over each rollout: with the policy, or in a pass of its own."""
    return config.policy.epochs if config.order == "joint" else config.representation.epochs


@pytest.mark.parametrize("name", PASSES)
def test_objectives_learn_from_a_rollout_as_often_as_ppo_or_are_named(name):
    configs = {method: preset(method, name) for method in METHODS}
    usual = configs["ppo"].policy.epochs
    found = {
        method: passes(config)
        for method, config in configs.items()
        if not isinstance(config.objective, NoObjective) and passes(config) != usual
    }
    assert found == PASSES[name]


@pytest.mark.parametrize(("order", "expected"), [("joint", 3), ("policy", 2), ("objective", 2)])
def test_passes_are_those_that_a_learner_makes(order, expected, monkeypatch):
    """In each pass the objective has two minibatches, and follows each of them with a call."""
    config = small("curl", order=order)
    config = replace(
        config,
        policy=replace(config.policy, epochs=3, minibatches=2),
        representation=replace(config.representation, epochs=2, minibatches=2),
    )
    learner, calls = learner_for(config), []
    monkeypatch.setattr(learner.objective, "after_step", calls.append)
    update(learner, rollout_for(learner))
    assert len(calls) / 2 == passes(config) == expected


def test_the_page_on_methods_names_every_difference():
    page = Path("docs/methods.md").read_text()
    section = page.split("## Equal terms")[1].split("\n## ")[0]
    (sentence,) = re.findall(r"the joint methods have 3[^.]*\.", section)
    assert set(re.findall(r"`(\w+)`", sentence)) == ONCE.keys()
    for method, value in RECIPE:
        if method not in ("daac", "idaac", "ppg") or value == "policy.kind":
            assert f"`{value}`" in section, value


# What the sources say where it is not what our methods have, from their code.
SOURCES: dict[str, dict[str, Any]] = {
    "atc": {"representation.learning_rate": 1e-3, "representation.max_grad_norm": 10.0},
    "curl": {
        "objective.target_decay": 0.999,
        "objective.similarity": "uniform",
        "representation.learning_rate": 1e-4,
        "representation.adam_epsilon": 1.5e-4,
        "representation.max_grad_norm": 10.0,
    },
    "spr": {
        "objective.weight": 5.0,
        "representation.learning_rate": 1e-4,
        "representation.adam_epsilon": 1.5e-4,
        "representation.max_grad_norm": 10.0,
    },
    "drac": {},
    "driml": {"representation.learning_rate": 2.5e-4, "representation.max_grad_norm": 10.0},
    "dbc": {"objective.model_trains_encoder": True, "representation.learning_rate": 1e-3},
    "pse": {},
    "proto": {
        "representation.learning_rate": 1e-4,
        "encoder_grad": "ssl",
        "order": "objective",
    },
    "diayn": {"objective.width": 1024, "representation.learning_rate": 1e-4},
}


@pytest.mark.parametrize("method", SOURCES)
def test_the_preset_source_changes_what_the_source_says_and_nothing_of_ppo(method):
    ours, source = (dotted(to_dict(config)) for config in (plain(method), preset(method, "source")))
    changed = {key: value for key, value in source.items() if value != ours.get(key)}
    assert changed.pop("preset") == "source"
    changed.pop("phases", None)
    assert changed == SOURCES[method]


def test_proto_and_diayn_have_the_phases_of_their_sources():
    explore, task = preset("proto", "source").phases
    assert (explore.extrinsic, explore.intrinsic) == (0.0, 1.0)
    assert (task.extrinsic, task.intrinsic, task.encoder_grad) == (1.0, 0.2, "none")
    assert [phase.encoder_grad for phase in preset("diayn", "source").phases] == ["ssl", None]


def test_the_source_of_what_is_no_port_is_its_own_release_or_paper():
    for method, name in (
        ("ppo", "procgen"),
        ("daac", "procgen"),
        ("idaac", "procgen"),
        ("ppg", "procgen"),
        ("ctrl", "paper"),
    ):
        assert values_of(preset(method, "source")) == values_of(preset(method, name))
    assert values_of(preset("situations", "source")) == values_of(plain("situations"))
