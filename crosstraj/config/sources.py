"""The preset `source`: what each auxiliary method's own paper or code says, a source beside each.

What is PPO's stays as it is for all methods: a source's replay buffer, Q-learning and frame rate
have no counterpart here. The CTRL paper's values for the same methods are the preset `paper`.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from crosstraj.config.phases import Phase
from crosstraj.objectives import (
    CURLConfig,
    DBCConfig,
    DIAYNConfig,
    DRIMLConfig,
    ProtoConfig,
    PSEConfig,
    SPRConfig,
)

if TYPE_CHECKING:
    from crosstraj.config.values import Config


def _curl(config: "Config", objective: CURLConfig) -> "Config":
    """aravindsrinivas/curl_rainbow: its code for discrete actions."""
    return replace(
        config,
        objective=replace(
            objective,
            target_decay=0.999,  # momentum of the key encoder, per step
            similarity="uniform",  # W = rand(128, 128)
            scale=0.1,  # of the logits
            weight=1.0,  # 0.01 in four games of Atari
        ),
        representation=replace(
            config.representation, learning_rate=1e-4, adam_epsilon=1.5e-4, max_grad_norm=10.0
        ),
    )


def _spr(config: "Config", objective: SPRConfig) -> "Config":
    """mila-iqia/spr, without augmentation."""
    return replace(
        config,
        objective=replace(
            objective,
            weight=5.0,  # the code; its paper says 2
            target_decay=0.99,  # tau = .01
        ),
        representation=replace(
            config.representation,
            learning_rate=1e-4,
            adam_epsilon=1.5e-4,
            max_grad_norm=10.0,  # of the dynamics model, apart from the stem
        ),
    )


def _driml(config: "Config", objective: DRIMLConfig) -> "Config":
    """bmazoure/DRIML: its command for Procgen."""
    return replace(
        config,
        objective=replace(objective, weight=1.0),  # lambda of global-global
        representation=replace(config.representation, learning_rate=2.5e-4, max_grad_norm=10.0),
    )


def _dbc(config: "Config", objective: DBCConfig) -> "Config":
    """facebookresearch/deep_bisim4control: its scripts."""
    return replace(
        config,
        objective=replace(
            objective,
            bisimulation_weight=0.5,  # beside likelihood and reward error of weight 1
            discount=0.99,  # of the metric: that of its agent
            model_trains_encoder=True,  # only the next latent is detached
        ),
        representation=replace(config.representation, learning_rate=1e-3),  # encoder and model
    )


def _pse(config: "Config", objective: PSEConfig) -> "Config":
    """google-research/google-research, pse: its code for dm_control."""
    return replace(
        config,
        objective=replace(
            objective,
            weight=1.0,
            temperature=0.1,  # the flag's default
            kernel_width=0.1,  # beta, never overridden
            discount=0.99,
        ),
    )


def _proto(config: "Config", objective: ProtoConfig) -> "Config":
    """denisyarats/proto: representation and exploration first, then the task, encoder frozen."""
    return replace(
        config,
        objective=replace(
            objective,
            target_decay=0.95,  # tau = .05; at every second step there
            temperature=0.1,
        ),
        representation=replace(config.representation, learning_rate=1e-4),
        encoder_grad="ssl",  # actor and critic read features without a gradient
        order="objective",  # the code updates the prototypes before actor and critic
        phases=(
            Phase(0.5, extrinsic=0.0, intrinsic=1.0),
            Phase(0.5, encoder_grad="none", objective_weight=0.0, intrinsic=0.2),
        ),
    )


def _diayn(config: "Config", objective: DIAYNConfig) -> "Config":
    """rll-research/url_benchmark, from pixels: the discriminator alone trains the encoder."""
    before, after = config.phases
    return replace(
        config,
        objective=replace(objective, skills=16, width=1024),  # skill_dim, hidden_dim
        representation=replace(config.representation, learning_rate=1e-4),
        phases=(replace(before, encoder_grad="ssl"), after),
    )


def as_its_source(config: "Config") -> "Config | None":
    """A default with the values of its method's own source; None: it has no source but its own.

    PPO, DAAC, CTRL and `situations` are not ported from another agent: config.py knows theirs.
    """
    match config.objective:
        case CURLConfig() as objective:
            return _curl(config, objective)
        case SPRConfig() as objective:
            return _spr(config, objective)
        case DRIMLConfig() as objective:
            return _driml(config, objective)
        case DBCConfig() as objective:
            return _dbc(config, objective)
        case PSEConfig() as objective:
            return _pse(config, objective)
        case ProtoConfig() as objective:
            return _proto(config, objective)
        case DIAYNConfig() as objective:
            return _diayn(config, objective)
        case _:
            return None
