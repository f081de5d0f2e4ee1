"""Presets as data: for each method the values that it changes, with their sources.

A table has values by their dotted names, and `preset` lays the tables of a preset on top of each
other. What a table does not name is as METHOD in the method's own file has it, or the dataclasses.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from crosstraj.config.dotted import changed
from crosstraj.config.fitting import with_equal_minibatches
from crosstraj.config.groups import RepresentationConfig
from crosstraj.config.methods import METHODS, PRESETS
from crosstraj.config.values import POLICIES, Config, method_of
from crosstraj.errors import BadInput, unknown
from crosstraj.objectives import NoObjective
from crosstraj.objectives.phases import Phase

Values = Mapping[str, Any]  # by dotted name
Tables = Mapping[str, Values]  # by method

# CTRL paper, table of parameters; ambiguities as in docs/methods.md#ctrl.
PAPER: Tables = {
    "ctrl": {
        "objective.code_temperature": 0.3,  # the table's beta, on both sides
        "objective.temperature": 0.3,
        "objective.swap_codes": False,
        "objective.head_norm": "none",
        "objective.least_rank": 0.0,
        "representation.learning_rate": 5e-4,
        "representation.encoder_rate": 1.0,
        "encoder_grad": "ssl",  # the text; the released code lets the policy's gradient flow
        "order": "objective",  # Algorithm 1
    },
    "proto": {"frames": 16_000_000},  # 8M for each half
    "diayn": {"frames": 16_000_000},
    # The paper says nothing of it; the authors of DBC do so.
    "dbc": {"objective.model_trains_encoder": True},
}

# CTRL paper, equations and Algorithm 1 as printed, over PAPER.
LITERAL: Tables = {
    "ctrl": {
        "objective.unit_projection": False,
        "objective.raw_distance": True,
        "objective.whole_rows": True,
    },
}

COMMUNITY = {"envs": 64, "policy.epochs": 3}
# train-procgen: 64 environments, 3 epochs over each rollout.
PROCGEN: Tables = {
    **dict.fromkeys(METHODS, COMMUNITY),
    "daac": {"envs": 64},  # IDAAC, which has its own epochs
    "idaac": {"envs": 64},
    "ppg": {"envs": 64},  # one epoch of each network, as released
    "pse": {**COMMUNITY, "objective.pairs": 8},  # as much extra play per frame as with 32
}

# docs/recipe.md: what PPO learns fastest with on a small machine, and so what every method has.
SMALL_STEPS = {"encoder": "slim", "policy.minibatches": 32, "policy.target_kl": 0.02}
RECIPE: Tables = {method: {**values, **SMALL_STEPS} for method, values in PROCGEN.items()}

# bmazoure/ctrl_public, what crashes repaired, over PAPER and PROCGEN: its PPO is the community's.
# docs/methods.md says what else was left.
RELEASE: Tables = {
    "ctrl": {
        "objective.keypoints": 10,
        "objective.sampling": "consecutive",
        "objective.whole_rows": True,
        "objective.mine_own_fragment": True,
        "objective.code_temperature": 0.1,
        "objective.temperature": 0.1,
        "objective.rounds": 1,
        "objective.neighbour_count": 1,
        "objective.code_gradient": True,
        "objective.target_decay": 0.05 ** (1 / 8),  # .05 over the eight steps of a rollout
        "objective.predictors": False,
        "representation.learning_rate": 1e-4,
        "encoder_grad": "both",
        "order": "policy",
    },
}

# What a method's own paper or code says. What is PPO's stays as it is for all methods: a source's
# replay buffer, Q-learning and frame rate have no counterpart here.
SOURCE: Tables = {
    "ppo": PROCGEN["ppo"],
    "daac": PROCGEN["daac"],
    "idaac": PROCGEN["idaac"],
    "ppg": PROCGEN["ppg"],
    "ctrl": PAPER["ctrl"],
    "atc": {  # astooke/rlpyt, ul; its rate falls along a cosine
        "representation.learning_rate": 1e-3,
        "representation.max_grad_norm": 10.0,
    },
    "curl": {  # aravindsrinivas/curl_rainbow: its code for discrete actions
        "objective.target_decay": 0.999,  # momentum of the key encoder, per step
        "objective.similarity": "uniform",  # W = rand(128, 128)
        "objective.scale": 0.1,  # of the logits
        "objective.weight": 1.0,  # 0.01 in four games of Atari
        "representation.learning_rate": 1e-4,
        "representation.adam_epsilon": 1.5e-4,
        "representation.max_grad_norm": 10.0,
    },
    "spr": {  # mila-iqia/spr, without augmentation
        "objective.weight": 5.0,  # the code; its paper says 2
        "objective.target_decay": 0.99,  # tau = .01
        "representation.learning_rate": 1e-4,
        "representation.adam_epsilon": 1.5e-4,
        "representation.max_grad_norm": 10.0,  # of the dynamics model, apart from the stem
    },
    "driml": {  # bmazoure/DRIML: its command for Procgen
        "objective.weight": 1.0,  # lambda of global-global
        "representation.learning_rate": 2.5e-4,
        "representation.max_grad_norm": 10.0,
    },
    "dbc": {  # facebookresearch/deep_bisim4control: its scripts
        "objective.bisimulation_weight": 0.5,  # beside likelihood and reward error of weight 1
        "objective.discount": 0.99,  # of the metric: that of its agent
        "objective.model_trains_encoder": True,  # only the next latent is detached
        "representation.learning_rate": 1e-3,  # encoder and model
    },
    "pse": {  # google-research/google-research, pse: its code for dm_control
        "objective.weight": 1.0,
        "objective.temperature": 0.1,  # the flag's default
        "objective.kernel_width": 0.1,  # beta, never overridden
        "objective.discount": 0.99,
    },
    "proto": {  # denisyarats/proto: representation and exploration, then the task, encoder frozen
        "objective.target_decay": 0.95,  # tau = .05; at every second step there
        "objective.temperature": 0.1,
        "representation.learning_rate": 1e-4,
        "encoder_grad": "ssl",  # actor and critic read features without a gradient
        "order": "objective",  # the code updates the prototypes before actor and critic
        "phases": (
            Phase(0.5, extrinsic=0.0, intrinsic=1.0),
            Phase(0.5, encoder_grad="none", objective_weight=0.0, intrinsic=0.2),
        ),
    },
    "diayn": {  # rll-research/url_benchmark, from pixels
        "objective.skills": 16,  # skill_dim
        "objective.width": 1024,  # hidden_dim
        "representation.learning_rate": 1e-4,
        "phases": (  # the discriminator alone trains the encoder, at first
            Phase(0.5, encoder_grad="ssl", extrinsic=0.0, intrinsic=1.0),
            Phase(0.5, objective_weight=0.0, reset=("normaliser", "value")),
        ),
    },
}

LAYERS: Mapping[str, tuple[Tables, ...]] = {
    "default": (RECIPE,),
    "paper": (PAPER,),
    "literal": (PAPER, LITERAL),
    "release": (PAPER, PROCGEN, RELEASE),
    "procgen": (PROCGEN,),
    "source": (SOURCE,),
}  # over the method's own defaults; a later table wins


def preset(method: str, name: str) -> Config:
    """The values of a method under a preset, before anything is overridden."""
    if name not in LAYERS:
        raise unknown("preset", name, PRESETS)
    config = plain(method)
    row = config.policy.kind if METHODS[method].own else method  # a person's own has its policy's
    for tables in LAYERS[name]:
        config = changed(config, with_equal_minibatches(tables.get(row, {}), config))
    return changed(config, {"preset": name})


def plain(method: str) -> Config:
    """A method with its own defaults, on PPO as the paper has it: what presets change."""
    return Config() if method == Config.method else beside_policy(method)


def beside_policy(method: str) -> Config:
    """A method's objective beside a policy that learns as if it were alone, and its defaults."""
    made, kind = method_of(method), method if method in POLICIES else "ppo"
    kind = made.defaults.get("policy.kind", kind)
    if kind not in POLICIES:
        raise unknown("policy", kind, POLICIES)
    parts = {"objective": made.config(), "policy": POLICIES[kind]()}
    ppo = Config(
        method="ppo",
        objective=NoObjective(),
        policy=POLICIES["ppo"](),
        representation=RepresentationConfig(),
        encoder_grad="rl",
        order="objective",
    )
    for value in made.defaults:
        part, _, inner = value.rpartition(".")
        if not hasattr(parts.get(part, getattr(ppo, part, None)) if part else ppo, inner):
            raise BadInput(
                f"METHOD.defaults of {method} has {value!r}, which is no value of a run; "
                "`crosstraj train --help-all` lists them"
            )
    return changed(ppo, {"method": method, **parts, **made.defaults})


# The values that decide the defaults of others.
DECIDING = ("method", "preset", "env", "memory", "policy.kind", "policy.per_game")
STRETCH = 32  # steps that a memory learns through, where the method does not say


def started(given: Values) -> Config:
    """The configuration that a person's other values are laid over, by those of DECIDING."""
    usual = Config()
    config = preset(given.get("method", usual.method), given.get("preset", usual.preset))
    config = with_policy(config, given.get("policy.kind", config.policy.kind))
    env, per_game = given.get("env", config.env), bool(given.get("policy.per_game"))
    policy = config.policy.for_game(env, per_game=per_game)
    objective = config.objective.for_game(env) if per_game else config.objective
    config = replace(config, env=env, policy=policy, objective=objective)
    return with_gru(config) if given.get("memory") == "gru" else config


def with_gru(config: Config) -> Config:
    """The same method with a memory, which learns through stretches."""
    policy = config.policy.in_stretches(STRETCH)
    return replace(config, policy=policy, memory="gru")


def with_policy(config: Config, kind: str) -> Config:
    """The same method under another policy, which comes with its own defaults."""
    if kind not in POLICIES:
        raise unknown("policy", kind, POLICIES)
    if config.policy.kind == kind:
        return config
    return replace(config, policy=POLICIES[kind]().instead_of(config.policy))
