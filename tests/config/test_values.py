"""Configurations: nonsense is refused, and method, objective and policy agree."""

from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from crosstraj.config.dotted import override
from crosstraj.config.groups import RepresentationConfig
from crosstraj.config.methods import METHODS, PRESETS
from crosstraj.config.presets import plain, preset
from crosstraj.config.stored import from_dict, to_dict
from crosstraj.config.values import Config
from crosstraj.errors import BadInput
from crosstraj.objectives.base import NoObjective
from crosstraj.objectives.ctrl import CTRLConfig
from crosstraj.objectives.curl import CURLConfig
from crosstraj.policies.daac import DAACConfig
from crosstraj.policies.ppo import PPOConfig
from tests.helpers import small


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"envs": 0}, "envs=0"),
        ({"frames": 0}, "frames=0"),
        ({"method": "ctrk"}, "did you mean 'ctrl'"),
        ({"seed": -1}, "seed=-1"),
        (
            {"order": "joint", "representation": RepresentationConfig(minibatches=3)},
            "minibatches=3",
        ),
        ({"encoder": "lattice", "pooling": "mean"}, "use pooling=none"),
        ({"objective": {"keypoints": 200}}, "keypoints=200"),
        ({"objective": {"clusters": 1}}, "clusters=1"),
        ({"objective": {"temperature": 0.0}}, "temperature=0.0"),
    ],
)
def test_nonsense_is_refused_when_it_is_configured(change, words):
    def build() -> Config:
        config, values = plain("ctrl"), dict(change)
        if "objective" in values:
            assert isinstance(config.objective, CTRLConfig)
            values["objective"] = replace(config.objective, **values["objective"])
        return replace(config, **values)

    with pytest.raises(BadInput, match=words):
        build()


@pytest.mark.parametrize("grad", ["rl", "both"])
def test_a_cut_that_the_gradient_passes_is_refused(grad):
    with pytest.raises(BadInput, match=f"encoder_grad={grad} lets it through"):
        small(split_at="conv", encoder_grad=grad)


@pytest.mark.parametrize(
    ("method", "change", "words"),
    [
        ("ctrl", {"order": "joint"}, "order=joint has no such pass"),
        ("diayn", {}, "method=diayn gives the heads a skill"),
        ("atc", {"split_at": "fc"}, "method=atc reads the map before the features"),
        ("spr", {"order": "policy"}, "method=spr reads the map before the features"),
        ("ctrl", {"encoder_grad": "ssl", "split_at": "conv"}, "split_at=conv gives the heads"),
    ],
)
def test_an_anchor_that_cannot_hold_is_refused(method, change, words):
    anchored = RepresentationConfig(minibatches=2, anchor=1.0)
    with pytest.raises(BadInput, match=rf"representation\.anchor=1\.0 holds .*{words}"):
        small(method, representation=anchored, **change)


@pytest.mark.parametrize("method", sorted(METHODS.keys() - {"ctrl"}))
def test_a_method_with_the_objective_of_another_is_refused(method: str):
    with pytest.raises(BadInput) as refused:
        Config(method=method)
    named = type(plain(method).objective).__name__
    said = f"method={method} has the objective {named}, but objective is CTRLConfig; begin with "
    assert str(refused.value) == f"{said}preset({method!r}, 'default')"


def test_ctrl_without_its_objective_and_ppo_with_one_are_refused():
    with pytest.raises(BadInput, match="method=ctrl has the objective CTRLConfig, but "):
        replace(Config(), objective=NoObjective())
    with pytest.raises(BadInput, match="method=ppo has the objective NoObjective, but "):
        replace(plain("ppo"), objective=CURLConfig())
    with pytest.raises(BadInput, match="unknown method 'cltr': did you mean 'ctrl'"):
        Config(method="cltr")


@pytest.mark.parametrize(("method", "policy"), [("ppo", DAACConfig()), ("daac", PPOConfig())])
def test_a_method_that_is_a_policy_has_that_policy(method: str, policy: Any):
    other = policy.kind
    with pytest.raises(BadInput, match=f"but policy.kind={other}; use method={other}"):
        replace(plain(method), policy=policy)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"env": "ising"}, "ising has none"),
        ({"env": "A-v0"}, "without gymnasium.train_levels; add it"),
        ({"procgen.train_levels": 2**20 + 1}, "1048576 at most, not of 1048577"),
        ({"procgen.use_generated_assets": True}, "use_generated_assets=True cannot be"),
    ],
)
def test_levels_that_cannot_be_chosen_are_refused(change, words):
    with pytest.raises(BadInput, match=words):
        override(Config(), {"replay.levels": True, **change})
    chosen = override(Config(), {"env": "A-v0", "gymnasium.train_levels": 3, "replay.levels": True})
    assert chosen.levels == (0, 3)
    assert Config().levels == (0, 200)


def test_a_memory_is_never_advised_to_learn_without_stretches():
    short = {"policy.stretch": 2}
    with pytest.raises(BadInput, match=r"raise it, or use policy\.stretch=0 for frames"):
        override(plain("situations"), short)
    with pytest.raises(BadInput, match=r"raise it$"):
        override(plain("situations"), {"memory": "gru", **short})


def test_nothing_rewrites_a_configuration():
    """What is given is what is held, for every method under every preset."""
    for method in METHODS:
        for name in PRESETS:
            config = preset(method, name)
            assert (config.method, config.preset) == (method, name)
            assert from_dict(to_dict(config)) == config
            with pytest.raises(FrozenInstanceError):
                config.policy = PPOConfig()  # type: ignore[misc]
