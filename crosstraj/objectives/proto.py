"""Proto-RL: prototypes that two shifted frames in succession share (Yarats et al., ICML 2021).

A frame is assigned to prototypes by the moving average of the network; the network must predict,
from the frame before, that assignment. In the first phase this trains the encoder along with the
policy; in the second the encoder is frozen and the heads learn on. The CTRL paper leaves out the
intrinsic reward, distance to frames seen lately; here it is the weight of a phase.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from crosstraj.data.episode_borders import time_of
from crosstraj.data.rollout import Played, Rollout
from crosstraj.errors import BadInput, check_range
from crosstraj.health.complaints import collapse, empty_codes, too_few_views
from crosstraj.health.instruments import clustering_health, worth_of_view
from crosstraj.nn import ops
from crosstraj.nn.heads import linear, mlp
from crosstraj.nn.memory import pixels
from crosstraj.objectives.base import Clustering, Encoder, Metrics, ObjectiveConfig
from crosstraj.objectives.method import JOINT, Method
from crosstraj.objectives.phases import Phase
from crosstraj.objectives.prototypes import Prototypes, unit_rows


@dataclass(frozen=True)
class ProtoConfig(ObjectiveConfig):
    """The values of denisyarats/proto."""

    temperatures = ("temperature",)

    prototypes: int = 512
    """Number of prototypes; a minibatch should have at least as many pairs."""
    width: int = 128
    """Width of the projection and of the prototypes."""
    hidden: int = 512
    """Hidden width of the predictor."""
    temperature: float = 0.1
    """Softmax temperature of the assignments and of their prediction."""
    rounds: int = 3
    """Sinkhorn iterations."""
    shift: int = 4
    """Largest random shift of a frame, in pixels."""
    target_decay: float = 0.95
    """EMA decay of the target network at each step (the source updates it at every second step)."""
    neighbours: int = 3
    """Intrinsic reward: distance to the k-th nearest stored feature, for this k."""
    queue: int = 2048
    """Intrinsic reward: number of features stored."""

    def __post_init__(self) -> None:
        check_range(self, "objective.", "width", "hidden", "rounds", "neighbours", at_least=1)
        check_range(self, "objective.", "prototypes", at_least=2)
        check_range(self, "objective.", "temperature", above=0)
        check_range(self, "objective.", "target_decay", at_least=0, below=1)
        check_range(self, "objective.", "shift", at_least=0)
        if self.queue < max(self.prototypes, self.neighbours):
            raise BadInput(
                f"objective.queue={self.queue}: must have room for the prototypes "
                f"({self.prototypes}) and the neighbours ({self.neighbours})"
            )

    def complaints(self, metrics: dict[str, float]) -> dict[str, str | None]:
        return {
            "collapse": collapse(metrics, self.prototypes),
            "empty codes": empty_codes(metrics, self.prototypes),
            "too few views": too_few_views(metrics, self.prototypes, 1, "prototypes"),
        }

    def needs(self) -> tuple[int, str]:
        return 2, "a frame and the next"


class Batch(NamedTuple):
    frames: Tensor  # [2 B, H, W, C] uint8: B frames, and after them the next of each
    level: Tensor  # [B] the level, or where there are none a number for the fragment
    time: Tensor  # [B] steps since the episode began, or the rollout


class Proto(Prototypes):
    rewards = True
    follows = True
    why_no_memory = "a shifted frame and the next would share one memory, which names the prototype"
    queue: Tensor  # [queue, width]
    target_encoder: nn.Module

    def __init__(
        self, config: ProtoConfig, features: int, actions: int, rng: torch.Generator
    ) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.projector = linear(features, width, 1.0, rng)
        self.target_projector = copy.deepcopy(self.projector).requires_grad_(False)
        self.predictor = mlp(width, config.hidden, width, rng)
        self.prototypes = unit_rows(config.prototypes, width, rng)
        # Zeros are at distance 1 of every unit vector: a reward of 1 until the queue is filled.
        self.register_buffer("queue", torch.zeros(config.queue, width))

    def attach(self, encoder: nn.Module) -> None:
        self.target_encoder = copy.deepcopy(encoder).requires_grad_(False)

    def minibatches(self, rollout: Played, count: int, rng: torch.Generator) -> Iterator[Batch]:
        frames, envs = pixels(rollout.frames()), rollout.done.shape[1]
        level, time = rollout.group().flatten(), time_of(rollout.done).flatten()
        # Steps whose next frame is of the same episode, and of this rollout.
        first = (~rollout.done[:-1].cpu()).flatten().nonzero().squeeze(1)
        first = first[torch.randperm(len(first), generator=rng)]
        for index in first.tensor_split(count):
            if len(index):
                pairs = torch.cat([index, index + envs]).to(frames.device)
                index = index.to(frames.device)
                yield Batch(frames.index_select(0, pairs), level[index], time[index])

    def loss(self, encode: Encoder, batch: Batch, rng: torch.Generator) -> tuple[Tensor, Metrics]:
        c = self.config
        now, following = ops.random_shift(batch.frames, c.shift, rng).chunk(2)  # each its own way
        with torch.no_grad():
            target = self.target_projector(encode.on(self.target_encoder)(following))
            code = self.code(target, c.temperature, c.rounds)
        guess = ops.unit(self.predictor(self.projector(encode(now))))
        log_assignment = (guess @ self.prototypes.T / c.temperature).log_softmax(1)
        losses = ops.cross_entropies(code, log_assignment)
        if not self.play.full:
            self.play.add(
                code=code,
                loss=losses,
                level=batch.level,
                nothing=torch.zeros_like(batch.level),
                time=(batch.time + 1).float().log2().long(),
            )
        metrics: Metrics = {
            "code_entropy": ops.entropy(code).mean()
        }  # the least that a loss can be
        if not self.measured:  # on the first batch of a rollout, for singular values are slow
            metrics |= clustering_health(target, code, self.prototypes, c.temperature, c.rounds)
            metrics["frame_gain"] = worth_of_view(code, log_assignment)
            self.measured = True
        return losses.mean(), metrics

    @torch.no_grad()
    def reward(self, rollout: Rollout, rng: torch.Generator) -> Tensor:
        """How far o_{t+1} lies from frames seen lately; 0 where it is another episode's."""
        c = self.config
        seen = ops.unit(self.projector(rollout.features[1:].flatten(0, 1)))
        # Each prototype puts one frame, drawn by its likeness, at the end of the queue.
        likeness = (seen @ self.prototypes.T).T.softmax(1)
        chosen = likeness.cpu().multinomial(1, generator=rng).squeeze(1).to(seen.device)
        self.queue.copy_(torch.cat([self.queue[len(chosen) :], seen.index_select(0, chosen)]))
        distance = torch.cat([torch.cdist(part, self.queue) for part in seen.split(1024)])
        nearest = distance.topk(c.neighbours, dim=1, largest=False).values[:, -1]
        return nearest.view_as(rollout.reward) * ~rollout.done

    @torch.no_grad()
    def after_step(self, encoder: nn.Module) -> None:
        super().after_step(encoder)
        ops.follow(self.target_encoder, encoder, self.config.target_decay)
        ops.follow(self.target_projector, self.projector, self.config.target_decay)

    def clustering(self) -> Clustering:
        """A view is one frame, as the network itself sees it, not its moving average."""
        c = self.config

        def embed(features: Tensor, action: Tensor) -> Tensor:
            return self.projector(features.squeeze(1))

        return Clustering(1, self.prototypes, c.temperature, c.rounds, embed)


METHOD = Method(
    "proto",
    ProtoConfig,
    Proto,
    defaults={
        **JOINT,  # "jointly training the representation and RL losses" (CTRL paper)
        # The CTRL paper's one rate for every method; denisyarats/proto has 1e-4. In one joint step
        # it is that of projector, predictor and prototypes: the encoder steps with
        # policy.learning_rate, which is the same.
        "representation.learning_rate": 5e-4,
        "phases": (
            Phase(0.5),
            # Frozen, heads alone, as in Proto-RL and the CTRL paper's section on convergence. Its
            # appendix has "only the RL loss", which may as well mean encoder_grad="rl": the policy
            # trains the encoder on.
            Phase(0.5, encoder_grad="none", objective_weight=0.0),
        ),
    },
)
