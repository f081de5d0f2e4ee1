"""DrAC: policy and value of a frame must not change when it is augmented (Raileanu, 2021).

    L = alpha * (KL(pi(. | o) || pi(. | f(o))) + (V(o) - V(f(o)))^2 / 2)

beside PPO's loss, with f a random crop, other colours or a random convolution, and without a
gradient through pi(. | o) and V(o): what is learnt from augmented frames is to agree with the plain
ones (Raileanu et al., Automatic Data Augmentation, NeurIPS 2021). With `ucb` a bandit chooses among
the three once per rollout, by the returns that followed each choice, after each was tried once:

    f = argmax Q(f) + c * sqrt(log t / N(f)),    Q(f): the mean of its last K returns

Differs: the release tries none of them first. Its counts begin at one and its Q at 0, so that where
returns are positive the first choice looks the best for ever (with 1.1 per rollout, random play of
bigfish, in each of 1,500 choices). The KL divergence itself, where the release has the
log-probability of one action drawn from pi(. | o), whose mean has the same gradient; three
augmentations of the release's eight; and discounted rewards within the rollout, where the release
has GAE's lambda-returns, into which the values of all steps enter.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from crosstraj.data.advantages import gae
from crosstraj.data.minibatches import scattered
from crosstraj.data.rollout import Played
from crosstraj.errors import BadInput, check_range
from crosstraj.nn import ops
from crosstraj.nn.augmentation import random_colours, random_convolution
from crosstraj.nn.memory import pixels
from crosstraj.objectives.base import Encoder, Metrics, Objective, ObjectiveConfig, RunValues
from crosstraj.objectives.method import JOINT, Method

Augmentation = Literal["crop", "colour", "convolution"]
AUGMENTATIONS: tuple[Augmentation, ...] = get_args(Augmentation)
DISCOUNT = 0.999  # of the returns that a choice is judged by: PPO's


@dataclass(frozen=True)
class DrACConfig(ObjectiveConfig):
    """DrAC's own values, from the authors' release."""

    augmentation: Literal[Augmentation, "ucb"] = "crop"
    """What the policy must not mind: a random crop, other colours (brightness, contrast,
    saturation, hue), or a random convolution; ucb chooses one of them for each rollout."""
    shift: int = 12
    """Largest shift of a crop, in pixels (release)."""
    exploration: float = 0.1
    """Weight of trying what was seldom tried, for ucb (release; the paper's c)."""
    window: int = 10
    """How many of the last returns of each augmentation count, for ucb (release; the paper's K)."""
    weight: float = 0.1
    """Weight of the loss beside the policy's (release; the paper's alpha)."""

    def __post_init__(self) -> None:
        if self.augmentation not in (*AUGMENTATIONS, "ucb"):
            raise BadInput(
                f"objective.augmentation={self.augmentation}: must be one of "
                f"{', '.join(AUGMENTATIONS)}, ucb"
            )
        check_range(self, "objective.", "shift", "exploration", "weight", at_least=0)
        check_range(self, "objective.", "window", at_least=1)

    def check(self, run: RunValues) -> None:
        if run.policy.kind != "ppo":
            raise BadInput(
                f"method=drac holds a policy and values that read the same features, and policy."
                f"kind={run.policy.kind} has another network for its values; use policy.kind=ppo"
            )


class Batch(NamedTuple):
    frames: Tensor  # [B, H, W, C] uint8
    augmentation: Augmentation


class DrAC(Objective):
    reads_heads = True
    why_no_anchor = "method=drac holds the heads on augmented frames itself"
    why_no_memory = "what came before an augmented frame would have to be augmented, too"
    chosen: Tensor  # 0-d: the place in AUGMENTATIONS of the last choice; -1 before the first
    tried: Tensor  # [A] how often each was chosen
    returns: Tensor  # [A, K] the mean returns of the rollouts that followed, oldest overwritten

    def __init__(
        self, config: DrACConfig, features: int, actions: int, rng: torch.Generator
    ) -> None:
        super().__init__()
        self.config, self.rollout_is_new = config, True
        kinds = len(AUGMENTATIONS)
        self.register_buffer("chosen", torch.tensor(-1))
        self.register_buffer("tried", torch.zeros(kinds, dtype=torch.int64))
        self.register_buffer("returns", torch.zeros(kinds, config.window))

    def gather(self, rng: torch.Generator) -> None:
        self.rollout_is_new = True

    def minibatches(self, rollout: Played, count: int, rng: torch.Generator) -> Iterator[Batch]:
        if self.rollout_is_new:
            self.choose(mean_return(rollout))
            self.rollout_is_new = False
        kind = AUGMENTATIONS[int(self.chosen)]
        frames, (steps, envs) = pixels(rollout.frames()), rollout.done.shape
        for frame in scattered(steps, envs, count, rng):
            yield Batch(frames.index_select(0, frame.to(frames.device)), kind)

    def choose(self, earned: Tensor) -> None:
        """Credit the last choice with the rollout that followed it, and make the next one."""
        last = int(self.chosen)
        if last >= 0:
            self.returns[last, int(self.tried[last] - 1) % self.config.window] = earned
        if self.config.augmentation == "ucb":
            self.chosen.copy_(self.bounds().argmax())
        else:
            self.chosen.fill_(AUGMENTATIONS.index(self.config.augmentation))
        self.tried[self.chosen] += 1

    def bounds(self) -> Tensor:
        """The upper confidence bound of each augmentation [A]; of an untried one it is infinite."""
        tried = self.tried.clamp(min=1)
        mean = self.returns.sum(1) / tried.clamp(max=self.config.window)
        unsure = (self.tried.sum().clamp(min=1).log() / tried).sqrt()
        bound = mean + self.config.exploration * unsure
        return bound.masked_fill(self.tried == 0, math.inf)

    def loss(self, encode: Encoder, batch: Batch, rng: torch.Generator) -> tuple[Tensor, Metrics]:
        assert self.opinions is not None  # given to it where it trains
        with torch.no_grad():
            log_probs, value = self.opinions(encode, batch.frames)
        seen, value_seen = self.opinions(encode, self.augmented(batch, rng))
        kl = ops.divergence(log_probs, seen)
        error = 0.5 * (value - value_seen).square().mean()
        evidence = {"augmented_kl": kl, "augmented_value_error": error}
        return self.config.weight * (kl + error), evidence

    def augmented(self, batch: Batch, rng: torch.Generator) -> Tensor:
        match batch.augmentation:
            case "crop":
                return ops.random_shift(batch.frames, self.config.shift, rng)
            case "colour":
                return random_colours(batch.frames, rng)
            case "convolution":
                return random_convolution(batch.frames, rng)

    def figures(self) -> Metrics:
        share = self.tried / self.tried.sum().clamp(min=1)
        return {f"{kind}_share": share[place] for place, kind in enumerate(AUGMENTATIONS)}


def mean_return(rollout: Played) -> Tensor:
    """The mean over steps of what is earned from there on, to the end of episode or rollout."""
    nothing = torch.zeros_like(rollout.reward)
    value = torch.cat([nothing, nothing[:1]])
    earned = gae(rollout.reward, value, rollout.done, nothing, discount=DISCOUNT, trace=1.0)
    return earned.mean()


METHOD = Method("drac", DrACConfig, DrAC, defaults=JOINT)  # as in its source
