"""Every value of a run: frozen dataclasses, checked at construction; presets say their source."""

import dataclasses
import os
import re
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch

from crosstraj.config.methods import METHODS, PRESETS
from crosstraj.config.phases import EncoderGrad, Phase, check_phases
from crosstraj.config.sources import as_its_source
from crosstraj.cores import usable_cores
from crosstraj.envs import GAMES, NAMES, IsingConfig, ProcgenConfig, make_envs
from crosstraj.errors import BadInput, check_range, unknown
from crosstraj.nn.encoders import EncoderKind, FeatureNorm, Pooling, SplitAt
from crosstraj.objectives import (
    ONE_PASS,
    CTRLConfig,
    CURLConfig,
    DBCConfig,
    DIAYNConfig,
    DRIMLConfig,
    NoObjective,
    ObjectiveConfig,
    ProtoConfig,
    PSEConfig,
    SituationsConfig,
    SPRConfig,
)
from crosstraj.policies.daac import TUNED, DAACConfig, Tuned
from crosstraj.policies.ppo import PPOConfig

POLICIES: dict[str, type[PPOConfig] | type[DAACConfig]] = {"ppo": PPOConfig, "daac": DAACConfig}
Order = Literal["objective", "policy", "joint"]
LevelSplit = Literal["seen", "unseen", "validation"]
GYMNASIUM_MARKS = "-/:"  # one of them is in every Gymnasium id, and in no game's name


@dataclass(frozen=True)
class RepresentationConfig:
    """How an objective is trained."""

    epochs: int = 1
    """Passes over a rollout (paper 1)."""
    minibatches: int = 8
    """Optimiser steps per pass (released code)."""
    learning_rate: float = 5e-4
    """Adam's step size for the objective's own heads (paper 5e-4)."""
    adam_epsilon: float = 1e-5
    """Adam's epsilon (released code)."""
    max_grad_norm: float = 0.5
    """Bound on the norm of the gradient (released code)."""
    encoder_rate: float = 1.0
    """The encoder's step size as a share of the heads', so that the policy can follow (paper 1)."""
    weight: float = 1.0
    """Weight of the objective's loss; with 0 it rests, and where the policy trains the encoder
    the run equals the policy alone, to the bit."""
    max_ratio: float = 0.0
    """Bound the objective's gradient on the encoder to this many times the policy's; 0 means no
    bound. Only --order joint has it."""
    anchor: float = 0.0
    """Weight of a penalty that keeps the policy as it was in the objective's own pass (PPG: 1)."""

    def __post_init__(self) -> None:
        check_range(self, "representation.", "epochs", "minibatches", at_least=1)
        check_range(self, "representation.", "weight", "max_ratio", "anchor", at_least=0)
        check_range(self, "representation.", "learning_rate", "adam_epsilon", at_least=0)
        check_range(self, "representation.", "encoder_rate", at_least=0)
        check_range(self, "representation.", "max_grad_norm", above=0)


@dataclass(frozen=True)
class EvaluationConfig:
    """The frozen policy on seen and on other levels; also done once at the end of a run."""

    every: int = 500_000
    """Frames between evaluations."""
    episodes: int = 128
    """Episodes per evaluation and per split, the same number in each environment."""
    envs: int = 64
    """Environments played at once."""
    greedy: bool = False
    """Take the most probable action instead of a sampled one."""
    held_out: Literal["unseen", "validation", "both"] = "unseen"
    """Levels to evaluate beside the training ones: unseen, validation (to choose by), or both."""

    @property
    def splits(self) -> tuple[LevelSplit, ...]:
        """What an evaluation plays, in this order."""
        match self.held_out:
            case "both":
                return ("seen", "unseen", "validation")
            case one:
                return ("seen", one)

    def __post_init__(self) -> None:
        check_range(self, "evaluation.", "every", "episodes", "envs", at_least=1)
        if self.episodes % self.envs:
            raise BadInput(
                f"evaluation.episodes={self.episodes} is not a multiple of "
                f"evaluation.envs={self.envs}: each environment plays the same number, so that "
                "short episodes are not over-counted"
            )


@dataclass(frozen=True)
class MachineConfig:
    """Where and how it is computed; changes rounding at most, never the method."""

    device: str = "cpu"
    """cpu, or cuda (not tested here)."""
    threads: int = 0
    """CPU threads; 0 takes all cores."""
    piece: int = 128
    """Frames encoded at a time, so that activations stay in the cache."""
    kernels: Literal["torch", "native"] = "torch"
    """torch's convolutions, or our own in C: faster on most CPUs, compiled when first used."""
    low_memory: bool = False
    """Encode twice instead of keeping activations: more work, less memory (docs/performance.md)."""
    compile: bool = False
    """torch.compile the encoder: needs a C++ compiler, changes rounding, gains a little."""
    bfloat16: bool = False
    """Run the encoder under bfloat16 autocast: for accelerators, and CPUs with AVX512_BF16."""

    def __post_init__(self) -> None:
        check_range(self, "machine.", "piece", at_least=1)
        check_range(self, "machine.", "threads", at_least=0)
        if not re.fullmatch(r"cpu|cuda(:\d+)?", self.device):
            raise BadInput(f"machine.device={self.device}: must be cpu, cuda or cuda:NUMBER")
        if self.kernels == "native" and (self.device != "cpu" or self.compile or self.bfloat16):
            raise BadInput("machine.kernels=native is for the CPU, in float32, and not compiled")
        if self.compile and self.device == "cpu" and not shutil.which(os.environ.get("CXX", "g++")):
            raise BadInput(
                "machine.compile=True needs a C++ compiler: install g++, or leave it off"
            )

    def check_presence(self) -> None:
        """Is the device there? Not asked at construction: runs are read on other machines, too."""
        if self.device != "cpu" and not torch.cuda.is_available():
            raise BadInput(f"machine.device={self.device}: torch finds no such device; use cpu")

    def rounding(self) -> dict[str, Any]:
        """What may change a last bit, beside threads and compile, which are asked of torch.

        Three are named only where they are used: older checkpoints do not have them.
        """
        seldom, usual = ("device", "bfloat16", "low_memory"), MachineConfig()
        used = [name for name in seldom if getattr(self, name) != getattr(usual, name)]
        return {name: getattr(self, name) for name in ("piece", "kernels", *used)}


@dataclass(frozen=True)
class SavingConfig:
    """What a run leaves behind."""

    runs: Path = Path("runs")
    """Where run directories are made."""
    checkpoint_seconds: float = 120.0
    """Time between checkpoints; 0 saves after every update."""
    snapshots: int = 8
    """Weights kept for good at this many evenly spaced points of the budget."""
    tensorboard: bool = False
    """Show metrics.jsonl in TensorBoard, too: in `tensorboard` in the run directory."""

    def __post_init__(self) -> None:
        check_range(self, "saving.", "checkpoint_seconds", "snapshots", at_least=0)


@dataclass(frozen=True)
class Config:
    """One training run."""

    method: str = "ppo"
    """What to train: see `crosstraj methods`."""
    preset: str = "default"
    """Where the other values come from: default, paper, literal, release, procgen, source."""
    env: str = "bigfish"
    """A Procgen game, ising, or a Gymnasium id with uint8 images and discrete actions."""
    seed: int = 0
    """One seed, one result."""
    frames: int = 8_000_000
    """Budget in environment steps; a larger one extends a finished run that has no phases."""
    envs: int = 32
    """Environments played in parallel (paper)."""
    rollout_steps: int = 256
    """Steps per environment between updates (paper)."""
    frame_stack: int = 1
    """Frames shown at once (paper)."""
    encoder: EncoderKind = "impala"
    """impala; slim: 42 % of its cost; laptop: 25 %, at half the resolution; lattice: for ising."""
    pooling: Pooling = "none"
    """Average pooling before the last layer: mean (global, Impoola), pyramid (2 x 2 and global)."""
    feature_norm: FeatureNorm = "none"
    """Layer norm on the encoder's features."""
    encoder_grad: EncoderGrad = "rl"
    """Who trains the encoder: nobody, the policy, the objective, or both."""
    split_at: SplitAt = "fc"
    """Where the policy's gradient stops: below the features, or below its own last layer (ATC)."""
    order: Order = "objective"
    """Update the policy or the objective first, or take one joint step on the summed loss."""
    on_nonfinite: Literal["halt", "rollback"] = "halt"
    """When a loss, gradient or reward is not finite: stop, or go back to the last checkpoint."""
    phases: tuple[Phase, ...] = ()
    """Parts of the budget that learn in different ways; none: one way for the whole of it."""
    policy: PPOConfig | DAACConfig = field(default_factory=PPOConfig)
    objective: ObjectiveConfig = field(default_factory=NoObjective)
    representation: RepresentationConfig = field(default_factory=RepresentationConfig)
    procgen: ProcgenConfig = field(default_factory=ProcgenConfig)
    ising: IsingConfig = field(default_factory=IsingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    machine: MachineConfig = field(default_factory=MachineConfig)
    saving: SavingConfig = field(default_factory=SavingConfig)

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise unknown("method", self.method, METHODS)
        if self.preset not in PRESETS:
            raise unknown("preset", self.preset, PRESETS)
        check_range(self, "", "frames", "envs", "rollout_steps", "frame_stack", at_least=1)
        check_range(self, "", "seed", at_least=0)
        if self.rollout_frames < self.policy.minibatches:
            raise BadInput(
                f"policy.minibatches={self.policy.minibatches} is more than the "
                f"{self.rollout_frames} frames of a rollout; lower it, or raise rollout_steps"
            )
        if self.machine.kernels == "native" and (
            self.encoder == "lattice" or self.frame_stack != 1 or self.env not in GAMES
        ):
            raise BadInput(
                "machine.kernels=native is for encoder=impala, laptop or slim on single Procgen "
                "frames; use machine.kernels=torch"
            )
        if self.encoder == "lattice" and self.pooling != "none":
            raise BadInput(
                f"pooling={self.pooling} is for the maps of other encoders: encoder=lattice takes "
                "the mean already; use pooling=none"
            )
        if self.order == "joint" and self.representation.minibatches != self.policy.minibatches:
            raise BadInput(
                f"order=joint steps both at once, but representation.minibatches="
                f"{self.representation.minibatches} and policy.minibatches="
                f"{self.policy.minibatches}; make them equal"
            )
        for grad in {phase.encoder_grad or self.encoder_grad for phase in self.schedule}:
            if self.split_at == "conv" and grad not in ("ssl", "none"):
                raise BadInput(
                    "split_at=conv says where the policy's gradient stops, but encoder_grad="
                    f"{grad} lets it through; use encoder_grad=ssl, or split_at=fc"
                )
        needed, what = self.objective.needs()
        if needed > self.rollout_steps:
            raise BadInput(
                f"{what} needs {needed} steps of one trajectory, but rollout_steps="
                f"{self.rollout_steps}; raise it"
            )
        self._check_stretches(needed, what)
        self._check_anchor()
        if isinstance(self.policy, DAACConfig) and self.policy.per_game:
            tuned = TUNED.get(self.env, Tuned())  # the stored configuration has the true values
            object.__setattr__(self, "policy", replace(self.policy, **tuned._asdict()))
        self._check_phases()
        if isinstance(self.objective, PSEConfig):
            self._check_levels(self.objective)

    def _check_stretches(self, needed: int, what: str) -> None:
        stretch, count = self.policy.stretch, self.policy.minibatches
        if not stretch:
            return
        blocks = self.envs * max(1, self.rollout_steps // stretch)
        if blocks < count:
            raise BadInput(
                f"policy.stretch={stretch} leaves {blocks} pieces of a rollout for "
                f"policy.minibatches={count}; lower either, or raise rollout_steps or envs"
            )
        if self.order != "joint" or not isinstance(self.objective, ONE_PASS):
            return
        if stretch < needed:
            raise BadInput(
                f"policy.stretch={stretch} is shorter than the {needed} steps that {what} needs; "
                "raise it, or set it to 0 for frames of the objective's own"
            )
        if self.machine.compile:
            raise BadInput(
                "machine.compile=True cannot pass a gradient twice, which one pass with the policy "
                "does once per rollout; use machine.kernels=native, or policy.stretch=0"
            )

    def _check_anchor(self) -> None:
        """It holds PPO's heads on plain features, in a pass of the objective's own."""
        why = {
            "order=joint has no such pass": self.order == "joint",
            "policy.kind=daac has other heads": isinstance(self.policy, DAACConfig),
            "split_at=conv gives the heads a layer of their own": self.split_at == "conv",
            "method=diayn gives the heads a skill": isinstance(self.objective, DIAYNConfig),
            "method=spr reads the map before the features": isinstance(self.objective, SPRConfig),
            "machine.compile=True cannot copy the encoder": self.machine.compile,
        }
        for reason in [
            words for words, holds in why.items() if holds and self.representation.anchor
        ]:
            raise BadInput(
                f"representation.anchor={self.representation.anchor} holds PPO's heads on the "
                f"features during a pass of the objective's own, and {reason}; leave it at 0"
            )

    def _check_phases(self) -> None:
        check_phases(self.schedule, self.frames, self.rollout_frames)
        if not any(phase.intrinsic for phase in self.phases):
            return
        if not isinstance(self.objective, DIAYNConfig | ProtoConfig):
            raise BadInput("phases: intrinsic must be 0 but for diayn and proto, which have one")
        if self.split_at == "conv":
            raise BadInput("phases: intrinsic reads features, which split_at=conv does not make")

    def _check_levels(self, pse: PSEConfig) -> None:
        if self.env not in GAMES:
            raise BadInput(f"method={self.method} plays chosen levels: {self.env} has none")
        if pse.levels > self.procgen.train_levels:
            raise BadInput(
                f"objective.levels={pse.levels} are more than procgen.train_levels="
                f"{self.procgen.train_levels}: only training levels may be played; lower it"
            )
        if self.procgen.use_generated_assets:
            raise BadInput(
                f"method={self.method} puts levels back to their first frame, which the engine "
                "cannot do with procgen.use_generated_assets=True; leave it off"
            )

    @property
    def rollout_frames(self) -> int:
        return self.envs * self.rollout_steps

    @property
    def schedule(self) -> tuple[Phase, ...]:
        """The phases of the run: at least one."""
        return self.phases or (Phase(),)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, nested as the fields are."""
        values = dataclasses.asdict(self)
        if self.env != "ising":  # its settings tell no other runs apart
            del values["ising"]
        for name, before in LATER.items():
            part, _, inner = name.rpartition(".")
            holder = values[part] if part else values
            if holder.get(inner) == before:
                del holder[inner]
        values["saving"]["runs"] = str(self.saving.runs)
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Config":
        """The inverse of `to_dict`; values that this version does not know are refused."""
        try:
            template = preset(values.get("method", ""), "default")
            phases, policy = values.get("phases", ()), values["policy"]
            parts: dict[str, Any] = {
                "phases": tuple(Phase(**p | {"reset": tuple(p["reset"])}) for p in phases),
                "policy": POLICIES[policy.get("kind", "ppo")](**policy),
            }
            for name, value in values.items():
                part = getattr(template, name)
                if name == "objective":
                    later = {k: v for k, v in _before(name).items() if hasattr(part, k)}
                    value = later | value
                if name not in parts:
                    parts[name] = type(part)(**value) if isinstance(value, dict) else value
            parts["saving"] = replace(parts["saving"], runs=Path(parts["saving"].runs))
            return cls(**parts)
        except (AttributeError, KeyError, TypeError) as error:
            raise BadInput(f"this configuration does not fit this version: {error}") from error

    @property
    def threads(self) -> int:
        return self.machine.threads or usable_cores()


# Values that came after runs had been made, and what those runs did: there it is not written down,
# so that they keep their names and go on.
LATER: dict[str, Any] = {
    "objective.least_rank": 0.0,
    "objective.skill_steps": 0,
    "policy.head_rate": 1.0,
    "pooling": "none",
    "policy.stretch": 0,
    "policy.advantages": "minibatch",
    "representation.weight": 1.0,
    "representation.max_ratio": 0.0,
    "representation.anchor": 0.0,
    "evaluation.held_out": "unseen",
    "objective.metric": "scaled",
    "objective.rectified": True,
}
# What a run may change without becoming another run.
NOT_IDENTITY = ("frames", "machine", "saving", "objective.accept_weak_experts")


def _before(part: str) -> dict[str, Any]:
    """The later values of one part of a configuration, by their names there."""
    prefix = f"{part}."
    return {k.removeprefix(prefix): v for k, v in LATER.items() if k.startswith(prefix)}


def _paper(config: Config) -> Config:
    """CTRL paper, table of parameters; ambiguities as in docs/methods.md#ctrl."""
    if config.phases:
        return replace(config, frames=16_000_000)  # 8M for each half
    if isinstance(config.objective, DBCConfig):
        # The paper says nothing of it; the authors of DBC do so.
        return replace(config, objective=replace(config.objective, model_trains_encoder=True))
    if not isinstance(config.objective, CTRLConfig):
        return config
    objective = replace(
        config.objective,
        code_temperature=0.3,  # the table's beta, on both sides
        temperature=0.3,
        swap_codes=False,
        head_norm="none",
        least_rank=0.0,
    )
    representation = replace(config.representation, learning_rate=5e-4, encoder_rate=1.0)
    return replace(
        config,
        policy=replace(config.policy, head_rate=1.0),
        objective=objective,
        representation=representation,
        encoder_grad="ssl",  # the text; the released code lets the policy's gradient flow
        order="objective",  # Algorithm 1
    )


def _literal(config: Config) -> Config:
    config = _paper(config)
    if not isinstance(config.objective, CTRLConfig):
        return config
    objective = replace(config.objective, unit_projection=False, raw_distance=True, whole_rows=True)
    return replace(config, objective=objective)


def _release(config: Config) -> Config:
    """bmazoure/ctrl_public, what crashes repaired; docs/methods.md says what else was left."""
    config = _procgen(_paper(config))  # its PPO is the community's
    if not isinstance(config.objective, CTRLConfig):
        return config
    objective = replace(
        config.objective,
        keypoints=10,
        sampling="consecutive",
        whole_rows=True,
        mine_own_fragment=True,
        code_temperature=0.1,
        temperature=0.1,
        rounds=1,
        neighbour_count=1,
        code_gradient=True,
        target_decay=0.05 ** (1 / 8),  # .05 over the eight steps of a rollout
        predictors=False,
    )
    representation = replace(config.representation, learning_rate=1e-4)
    return replace(
        config,
        objective=objective,
        representation=representation,
        encoder_grad="both",
        order="policy",
    )


def _procgen(config: Config) -> Config:
    """train-procgen: 64 environments, 3 epochs over each rollout; IDAAC: 64, and its own epochs."""
    if isinstance(config.policy, DAACConfig):
        return replace(config, envs=64)
    if isinstance(config.objective, PSEConfig):  # as much extra play per frame as before
        config = replace(config, objective=replace(config.objective, pairs=8))
    return replace(config, envs=64, policy=replace(config.policy, epochs=3, head_rate=1.0))


def _source(config: Config) -> Config:
    """What a method's own paper or code says; for DAAC IDAAC's release, for PPO train-procgen."""
    ported = as_its_source(config)
    if ported is not None:
        return ported
    if isinstance(config.objective, NoObjective):
        return _procgen(config)
    return _paper(config)  # CTRL's own source; `situations` has none but its default


def with_policy(config: Config, kind: str) -> Config:
    """The same method under another policy, which comes with its own defaults."""
    if kind not in POLICIES:
        raise unknown("policy", kind, POLICIES)
    if config.policy.kind == kind:
        return config
    policy = POLICIES[kind]()
    if kind == "daac":  # which takes minibatches of either kind
        policy = replace(policy, stretch=config.policy.stretch)
    return replace(config, policy=policy)


def preset(method: str, name: str) -> Config:
    """The values of a method under a preset, before anything is overridden."""
    match method:
        case "ppo":
            config = Config(method="ppo")
        case "ctrl":
            config = Config(
                method="ctrl",
                objective=CTRLConfig(),
                # Ours, by the evidence of docs/searches.md: PPO, and then the objective. All heads
                # move fast; the encoder moves as PPO's does, and slowly for the objective.
                encoder_grad="both",
                order="policy",
                policy=PPOConfig(head_rate=4.0),
                representation=RepresentationConfig(learning_rate=2e-3, encoder_rate=0.1),
            )
        case "dbc":  # the source steps the encoder with Adams of its own
            config = Config(method="dbc", objective=DBCConfig(), encoder_grad="both")
        # The sources of these three step the encoder once, with the gradient of the summed loss.
        case "curl":
            config = Config(
                method="curl", objective=CURLConfig(), encoder_grad="both", order="joint"
            )
        case "spr":
            config = Config(method="spr", objective=SPRConfig(), encoder_grad="both", order="joint")
        case "driml":
            config = Config(
                method="driml", objective=DRIMLConfig(), encoder_grad="both", order="joint"
            )
        case "situations":  # shares the policy's pass, and is kept below its gradient
            config = Config(
                method="situations",
                objective=SituationsConfig(),
                encoder_grad="both",
                order="joint",
                policy=PPOConfig(stretch=32, advantages="rollout"),
                representation=RepresentationConfig(learning_rate=2e-3, max_ratio=1.0),
            )
        case "daac":
            config = Config(method="daac", policy=DAACConfig())
        case "proto":
            config = Config(
                method="proto",
                objective=ProtoConfig(),
                # The CTRL paper's one rate for every method; denisyarats/proto has 1e-4. In one
                # joint step it is that of projector, predictor and prototypes: the encoder steps
                # with policy.learning_rate, which is the same.
                representation=RepresentationConfig(learning_rate=5e-4),
                encoder_grad="both",
                order="joint",  # "jointly training the representation and RL losses" (CTRL paper)
                phases=(
                    Phase(0.5),
                    # Frozen, heads alone, as in Proto-RL and the CTRL paper's section on
                    # convergence. Its appendix has "only the RL loss", which may as well mean
                    # encoder_grad="rl": the policy trains the encoder on.
                    Phase(0.5, encoder_grad="none", objective_weight=0.0),
                ),
            )
        case "diayn":
            config = Config(
                method="diayn",
                objective=DIAYNConfig(),
                encoder_grad="both",
                phases=(
                    Phase(0.5, extrinsic=0.0, intrinsic=1.0),
                    # Other rewards, other scale: what was learnt of the old one is of no use.
                    Phase(0.5, objective_weight=0.0, reset=("normaliser", "value")),
                ),
            )
        case "pse":
            config = Config(
                method="pse",
                objective=PSEConfig(),
                encoder_grad="both",
                order="joint",  # Adam would undo the loss coefficient in steps of its own
            )
        case _:
            raise unknown("method", method, METHODS)
    match name:
        case "default":
            return config
        case "paper":
            config = _paper(config)
        case "literal":
            config = _literal(config)
        case "release":
            config = _release(config)
        case "procgen":
            config = _procgen(config)
        case "source":
            config = _source(config)
        case _:
            raise unknown("preset", name, PRESETS)
    return replace(config, preset=name)


def check_env_name(name: str) -> None:
    """Refuses what cannot be trained on before anything is written; Gymnasium's is made once."""
    if name in NAMES:
        return
    if not any(mark in name for mark in GYMNASIUM_MARKS):
        raise unknown("game", name, NAMES)
    make_envs(name, 1, levels="train", procgen=ProcgenConfig(), seed=0).close()
