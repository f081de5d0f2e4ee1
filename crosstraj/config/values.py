"""Every value of a run: frozen dataclasses, checked at construction.

`Config()` is CTRL with our own values, by the evidence of docs/searches.md, on PPO as the paper has
it. `presets.py` has other methods, and what presets change: the default of the command line is one.
"""

from dataclasses import dataclass, field
from importlib import import_module
from typing import Literal

from crosstraj.config.groups import (
    EvaluationConfig,
    MachineConfig,
    RepresentationConfig,
    SavingConfig,
)
from crosstraj.config.methods import METHODS, PRESETS
from crosstraj.config.training_levels import check_levels, levels_of
from crosstraj.cores import usable_cores
from crosstraj.data.level_replay import ReplayConfig
from crosstraj.envs import GymnasiumConfig, IsingConfig, Levels, ProcgenConfig
from crosstraj.errors import BadInput, check_range, unknown
from crosstraj.nn.encoders import FEATURES, EncoderKind, FeatureNorm, Pooling, SplitAt
from crosstraj.nn.memory import MemoryKind
from crosstraj.objectives.base import Objective, ObjectiveConfig
from crosstraj.objectives.ctrl import CTRLConfig
from crosstraj.objectives.method import ALONE, Method
from crosstraj.objectives.phases import EncoderGrad, Phase, check_phases
from crosstraj.policies.daac import DAACConfig
from crosstraj.policies.ppg import PPGConfig
from crosstraj.policies.ppo import PPOConfig

AnyPolicy = PPOConfig | DAACConfig | PPGConfig
POLICIES: dict[str, type[AnyPolicy]] = {"ppo": PPOConfig, "daac": DAACConfig, "ppg": PPGConfig}
Order = Literal["objective", "policy", "joint"]


def method_of(name: str) -> Method:
    """What a method learns beside its policy: the METHOD of its file."""
    if name not in METHODS:
        refusal = unknown("method", name, METHODS)
        raise BadInput(f"{refusal}; a method of your own needs --with FILE")
    if own := METHODS[name].own:
        return own.method
    if name in POLICIES:
        return ALONE
    method: Method = import_module(f"crosstraj.objectives.{name}").METHOD
    return method


@dataclass(frozen=True)
class Config:
    """One training run."""

    method: str = "ctrl"
    """Method to train; `crosstraj methods` lists them."""
    preset: str = "default"
    """Set of default values: default, paper, literal, release, procgen, source."""
    env: str = "bigfish"
    """Procgen game, ising, or a Gymnasium id with uint8 images and discrete actions."""
    seed: int = 0
    """Random seed; the same seed gives the same result."""
    frames: int = 8_000_000
    """Budget in environment steps (1e6, 1M); a larger one extends a finished run without phases."""
    envs: int = 32
    """Training environments played in parallel (paper)."""
    rollout_steps: int = 256
    """Steps per environment between updates (paper)."""
    frame_stack: int = 1
    """Frames stacked into one observation (paper)."""
    encoder: EncoderKind = "impala"
    """Encoder: impala; slim (42 % of its cost); laptop (25 %, half resolution); lattice (for
    ising)."""
    pooling: Pooling = "none"
    """Average pooling before the last layer: mean (global, Impoola), pyramid (2 x 2 and global)."""
    feature_norm: FeatureNorm = "none"
    """Layer norm on the encoder's features."""
    memory: MemoryKind = "none"
    """Memory between the encoder and the heads: none, or gru; it learns through policy.stretch."""
    memory_width: int = FEATURES
    """Width of the belief that the memory carries and the heads read, for --memory gru."""
    memory_burn_in: int = 0
    """Steps before each stretch that are seen again without a gradient, to refresh the stored
    memory; for --memory gru."""
    encoder_grad: EncoderGrad = "both"
    """Which gradients train the encoder: none, the policy's (rl), the objective's (ssl), or
    both."""
    split_at: SplitAt = "fc"
    """Layer at which the policy's gradient stops: fc (features), or conv, with its own fc (ATC)."""
    order: Order = "policy"
    """Update the policy or the objective first, or take one joint step on the summed loss."""
    on_nonfinite: Literal["halt", "rollback"] = "halt"
    """On a non-finite loss, gradient or reward: halt, or roll back to the last checkpoint."""
    start: str = ""
    """SHA-256 of the weights that training starts from; --from sets it. Empty: from random ones."""
    phases: tuple[Phase, ...] = ()
    """Parts of the budget that learn in different ways; none: one way for the whole of it."""
    policy: AnyPolicy = field(default_factory=PPOConfig)
    objective: ObjectiveConfig = field(default_factory=CTRLConfig)
    # Ours: the objective's heads move fast, and the encoder slowly.
    representation: RepresentationConfig = field(
        default_factory=lambda: RepresentationConfig(learning_rate=2e-3, encoder_rate=0.1)
    )
    procgen: ProcgenConfig = field(default_factory=ProcgenConfig)
    ising: IsingConfig = field(default_factory=IsingConfig)
    gymnasium: GymnasiumConfig = field(default_factory=GymnasiumConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    machine: MachineConfig = field(default_factory=MachineConfig)
    saving: SavingConfig = field(default_factory=SavingConfig)

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise unknown("preset", self.preset, PRESETS)
        self._check_method()
        check_levels(self.env, self.procgen, self.gymnasium, self.replay)
        check_range(self, "", "frames", "envs", "rollout_steps", "frame_stack", at_least=1)
        check_range(self, "", "seed", at_least=0)
        if self.rollout_frames < self.policy.minibatches:
            raise BadInput(
                f"policy.minibatches={self.policy.minibatches} is more than the "
                f"{self.rollout_frames} frames of a rollout; lower it, or raise rollout_steps"
            )
        if self.machine.kernels == "native" and self.encoder == "lattice":
            raise BadInput(
                "machine.kernels=native is for encoder=impala, laptop or slim; use "
                "machine.kernels=auto"
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
        self._check_memory()
        self._check_phases()
        self.objective.check(self)

    def _check_method(self) -> None:
        """The method, what it learns beside the policy, and the policy must be of one mind."""
        named = method_of(self.method).config
        if type(self.objective) is not named:
            raise BadInput(
                f"method={self.method} has the objective {named.__name__}, but objective is "
                f"{type(self.objective).__name__}; begin with preset({self.method!r}, 'default')"
            )
        if type(self.policy) is not POLICIES[self.policy.kind]:
            raise BadInput(
                f"policy.kind={self.policy.kind} has other values than these; "
                f"begin with preset({self.method!r}, 'default')"
            )
        if self.method in POLICIES and self.policy.kind != self.method:
            raise BadInput(
                f"method={self.method} is the policy {self.method} alone, but policy.kind="
                f"{self.policy.kind}; use method={self.policy.kind}"
            )
        tuned: dict[str, AnyPolicy | ObjectiveConfig] = {"policy": self.policy.for_game(self.env)}
        if isinstance(self.policy, DAACConfig) and self.policy.per_game:
            tuned["objective"] = self.objective.for_game(self.env)
        for part, values in tuned.items():
            for name, wanted in vars(values).items():
                if (given := getattr(getattr(self, part), name)) != wanted:
                    raise BadInput(
                        f"{part}.{name}={given}, but policy.per_game=True takes {wanted} for "
                        f"{self.env}; leave {part}.{name} out, or use policy.per_game=False"
                    )

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
        if self.order != "joint" or not self.objective_kind.reads_stretches:
            return
        or_none = ", or use policy.stretch=0" if self.memory == "none" else ""
        if stretch < needed:
            raise BadInput(
                f"policy.stretch={stretch} is shorter than the {needed} steps that {what} needs; "
                f"raise it{or_none and f'{or_none} for frames of its own'}"
            )
        if self.machine.compile:
            raise BadInput(
                "machine.compile=True cannot pass a gradient twice, which one pass with the policy "
                f"does once per rollout; leave it off{or_none}"
            )

    def _check_anchor(self) -> None:
        """It holds PPO's heads on plain features, in a pass of the objective's own."""
        why = {
            "order=joint has no such pass": self.order == "joint",
            "split_at=conv gives the heads a layer of their own": self.split_at == "conv",
            self.policy.why_no_anchor: bool(self.policy.why_no_anchor),
            self.objective_kind.why_no_anchor: bool(self.objective_kind.why_no_anchor),
            "machine.compile=True cannot copy the encoder": self.machine.compile,
        }
        for reason in [
            words for words, holds in why.items() if holds and self.representation.anchor
        ]:
            raise BadInput(
                f"representation.anchor={self.representation.anchor} holds PPO's heads on the "
                f"features during a pass of the objective's own, and {reason}; leave it at 0"
            )

    def _check_memory(self) -> None:
        check_range(self, "", "memory_width", at_least=1)
        check_range(self, "", "memory_burn_in", at_least=0)
        if self.memory == "none":
            for name in ("memory_width", "memory_burn_in"):
                if (given := getattr(self, name)) != getattr(Config, name):
                    raise BadInput(f"{name}={given} is a memory's, and memory=none; add memory=gru")
            return
        if self.memory_burn_in >= self.rollout_steps:
            raise BadInput(
                f"memory_burn_in={self.memory_burn_in} is not below rollout_steps="
                f"{self.rollout_steps}: no step has so many before it; lower it"
            )
        if self.policy.stretch < 2:
            raise BadInput(
                f"memory={self.memory} learns through consecutive steps, but policy.stretch="
                f"{self.policy.stretch} deals single ones; use policy.stretch=32, for example"
            )
        if why := self.objective_kind.why_no_memory or self.policy.why_no_memory:
            raise BadInput(
                f"method={self.method} cannot learn on the belief of memory={self.memory}: {why}; "
                "use memory=none, or another method"
            )
        if self.split_at == "conv":
            raise BadInput(
                f"memory={self.memory} reads features, but split_at=conv gives the heads the map "
                "before them; use split_at=fc"
            )

    def _check_phases(self) -> None:
        check_phases(self.schedule, self.frames, self.rollout_frames)
        if not any(phase.intrinsic for phase in self.phases):
            return
        if not self.objective_kind.rewards:
            raise BadInput(
                f"phases: intrinsic must be 0 with method={self.method}, whose objective gives no "
                "rewards; diayn and proto have one that does"
            )
        if self.split_at == "conv":
            raise BadInput("phases: intrinsic reads features, which split_at=conv does not make")

    @property
    def objective_kind(self) -> type[Objective]:
        """What is known of the objective before it is made."""
        return method_of(self.method).objective

    @property
    def features(self) -> int:
        """Width of what heads and objectives read: the encoder's features, or the belief."""
        return FEATURES if self.memory == "none" else self.memory_width

    @property
    def levels(self) -> Levels:
        """The levels that are trained on; none where the environment keeps none apart."""
        return levels_of(self.env, self.procgen, self.gymnasium)

    @property
    def train_levels(self) -> int:
        return self.levels.count

    @property
    def rollout_frames(self) -> int:
        return self.envs * self.rollout_steps

    @property
    def schedule(self) -> tuple[Phase, ...]:
        """The phases of the run: at least one."""
        return self.phases or (Phase(),)

    @property
    def threads(self) -> int:
        return self.machine.threads or usable_cores()
