"""Equal terms in experiments: beside every objective stands its policy alone, all else equal."""

import json
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from crosstraj.config.dotted import dotted
from crosstraj.config.presets import preset
from crosstraj.config.stored import to_dict
from crosstraj.config.values import Config
from crosstraj.experiments.file import read
from crosstraj.experiments.jobs import prepare
from crosstraj.experiments.plan import Experiment
from crosstraj.objectives import NoObjective

# What a control need not share with a method: the method itself, and what tells runs apart alone.
APART = {"method", "objective", "representation", "encoder_grad", "split_at", "order", "phases"}
APART |= {"preset", "saving"}
ROUNDING = {"device", "threads", "env_processes", "piece", "kernels", "low_memory", "compile"}
COMPARE = ("returns", "paired", "sweep")  # tables that hold returns of methods against each other
# Runs are kept of these, and tables made of them: their control is in another file.
ELSEWHERE = {"learn": "learn_controls", "learn_1m": "learn_controls"}
# Files of these tables without a control, and why they need none.
UNCONTROLLED = {
    "ablations": "CTRL is held against its own parts",
    "clusters": "CTRL is held against itself",
    "keypoints": "the same",
    "learn_rate": "a search of one value of CTRL",
    "pse_grid": "a search of two values of PSE; `main_table` has PPO beside what is chosen",
}


class Run(NamedTuple):
    variant: str
    terms: str  # game, levels, seed, budget, policy, encoder, memory ...: what is not the method
    without_budget: str
    has_objective: bool
    control: bool  # a policy that trains its encoder alone: a frozen one answers another question
    phased: bool


def run_of(variant: str, config: Config) -> Run:
    own = APART | {f"machine.{name}" for name in ROUNDING}
    values = dotted(to_dict(config))
    shared = {k: v for k, v in values.items() if not {k, k.split(".")[0]} & own}
    terms = json.dumps(shared, sort_keys=True, default=str)
    without_budget = json.dumps(shared | {"frames": None}, sort_keys=True, default=str)
    alone = isinstance(config.objective, NoObjective)
    control = alone and config.encoder_grad == "rl"
    return Run(variant, terms, without_budget, not alone, control, bool(config.phases))


def runs_of(plan: Experiment) -> list[Run]:
    """The runs of each variant in all games; two seeds stand for all, or this would be slow."""
    plan = replace(plan, seeds=tuple(sorted({plan.seeds[0], plan.seeds[-1]})))
    runs = [run_of(job.planned.variant, job.config) for job in prepare(plan.runs(), Path("runs"))]
    assert {run.variant for run in runs} == plan.variants.keys()
    return runs


def uncontrolled(runs: list[Run]) -> set[str]:
    """Variants with an objective in a run that has no control beside it.

    A control has the method's budget; not that of a method with phases, which is of all of them.
    """
    controls = [run for run in runs if run.control]
    whole, without_budget = {c.terms for c in controls}, {c.without_budget for c in controls}
    return {
        run.variant
        for run in runs
        if run.has_objective
        and (run.without_budget not in without_budget if run.phased else run.terms not in whole)
    }


FILES = {path.stem: path for path in sorted(Path("experiments").glob("*/*.toml"))}
COMPARISONS = [name for name, path in FILES.items() if read(path).table in COMPARE]
# The variants that are somebody's control, of every file that has one.
CONTROLS = {
    "all_methods": {"ppo", "ppo, stretches", "daac"},
    "curves_25m": {"ppo:paper", "ppo"},
    "learn_controls": {"ppo, heads 4"},
    "learn_search": {"ppo"},
    "main_table": {"ppo:paper", "ppo"},
    "memory": {"gru"},
    "memory_procgen": {"ppo", "ppo, gru"},
    "minigrid": {"ppo"},
    "semifinal": {"ppo"},
    "today": {"ppo", "ppo, impoola", "daac", "ppg", "plr"},
    "verdict": {"ppo"},
    "weights": {"ppo"},
}


@pytest.mark.parametrize("name", COMPARISONS)
def test_every_objective_has_its_policy_alone_on_the_same_terms_beside_it(name):
    """And where a control is dropped from the file, that is noticed."""
    runs = runs_of(read(FILES[name]))
    lacking = uncontrolled(runs)
    if name in ELSEWHERE:
        assert lacking, "it has its control now: take it out of ELSEWHERE"
        assert not uncontrolled(runs_of(read(FILES[ELSEWHERE[name]])))
        return
    if name in UNCONTROLLED:
        assert lacking, "it has its control now: take it out of UNCONTROLLED"
        return
    assert not lacking
    variants = {run.variant for run in runs}
    left = {dropped: [run for run in runs if run.variant != dropped] for dropped in variants}
    assert {dropped for dropped in left if uncontrolled(left[dropped])} == CONTROLS.get(name, set())


@pytest.mark.parametrize(
    ("value", "other"),
    [
        ("frames", 500_000),
        ("policy.epochs", 1),
        ("feature_norm", "layer"),
        ("pooling", "mean"),
        ("memory", "gru"),
        ("replay.levels", True),
        ("procgen.train_levels", 500),
        ("encoder_grad", "none"),
        ("machine.precision", "fp32"),
        ("games", ("starpilot",)),
        ("seeds", (0,)),
    ],
)
def test_a_control_that_is_not_on_the_same_terms_is_none(value, other):
    plan = read(FILES["semifinal"])
    changed = plan.variants | {"ppo": plan.variants["ppo"] | {value: other}}
    assert uncontrolled(runs_of(replace(plan, variants=changed))) == plan.variants.keys() - {"ppo"}


def test_the_sweep_of_weights_has_every_method_as_it_is_and_seeds_that_say_what_noise_is():
    """A method keeps its default unless another weight is better by more than its seeds differ."""
    plan = read(FILES["weights"])
    assert len(plan.seeds) >= 2
    kept = set()
    for job in prepare(plan.runs(), Path("runs")):
        config, default = job.config, preset(job.config.method, "default")
        if (config.objective, config.representation) == (default.objective, default.representation):
            kept.add(job.planned.variant)
    assert kept == {"ppo", "curl 1", "spr 2", "driml 1", "dbc 1", "pse 1", "proto 1"}
