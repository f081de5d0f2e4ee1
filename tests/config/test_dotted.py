"""Values by dotted names: told apart, compared and changed."""

from dataclasses import replace
from pathlib import Path

import pytest

from crosstraj.config.dotted import changed, differences, dotted, identity_of, override
from crosstraj.config.presets import plain
from crosstraj.errors import BadInput


def test_the_identity_leaves_out_what_it_is_told_to_and_nothing_else() -> None:
    base = {"frames": 1, "seed": 0, "machine": {"threads": 2, "kind": "cpu"}}
    without = ["frames", "machine.threads", "absent", "absent.too"]
    same = {"machine": {"kind": "cpu", "threads": 4}, "seed": 0, "frames": 9}
    other = {**base, "machine": {"threads": 2, "kind": "gpu"}}
    assert identity_of(base, without) == identity_of(same, without)
    assert identity_of(base, without) != identity_of(other, without)
    assert identity_of(base, []) != identity_of(same, [])
    assert base["machine"] == {"threads": 2, "kind": "cpu"}, "the argument is left as it was"
    # From `printf '{"a":[1,0.5],"b":null}' | sha256sum`: the identity may not change with us.
    known = "01b9c5a6e6f861c62aa1a87f8c3a4824df23bc344a041265f1bc65cc511b2537"
    assert identity_of({"b": None, "a": (1, 0.5), "frames": 3}, ["frames"]) == known


def test_nested_values_have_dotted_names():
    assert dotted({"a": 1, "b": {"c": 2, "d": {"e": (3,)}}, "f": {}}) == {
        "a": 1,
        "b.c": 2,
        "b.d.e": (3,),
        "f": {},
    }


def test_differences_name_both_sides_and_blame_the_budget_only_if_alone():
    there, here = {"frames": 1, "policy": {"epochs": 1}}, {"frames": 2, "policy": {"epochs": 3}}
    assert differences(there, here) == "policy.epochs is 1 there, 3 here"
    assert differences({"frames": 1}, {"frames": 2}) == "frames is 1 there, 2 here"
    assert differences({}, {"x": 0}) == "x is 'absent' there, 0 here"


def test_values_of_one_part_are_changed_at_once():
    """One after the other they would be refused: stretches want advantages over the rollout."""
    config = plain("ppo")
    values = {"policy.stretch": 8, "policy.advantages": "rollout", "envs": 16}
    policy = replace(config.policy, stretch=8, advantages="rollout")
    assert changed(config, values) == replace(config, envs=16, policy=policy)
    with pytest.raises(BadInput, match=r"policy\.stretch=8"):
        changed(config, {"policy.stretch": 8})


def test_values_from_a_person_have_a_known_name_and_the_right_type():
    config = plain("ctrl")
    assert override(config, {"saving.runs": "x"}).saving.runs == Path("x")
    learning_rate = override(config, {"policy.learning_rate": 1}).policy.learning_rate
    assert type(learning_rate) is float
    for values, said in (
        ({"policy.epoch": 3}, "unknown value 'policy.epoch': did you mean 'policy.epochs'"),
        ({"policy.epochs": True}, "policy.epochs=True: must be a whole number"),
        ({"order": "first"}, "order='first': must be one of objective, policy, joint"),
        ({"phases": 1}, "phases is not given in an experiment"),
    ):
        with pytest.raises(BadInput, match=said):
            override(config, values)
