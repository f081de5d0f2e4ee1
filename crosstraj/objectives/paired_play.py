"""Play beside the rollouts: pairs of different levels, side by side from their first frames.

The two levels of a pair begin together, and as soon as either ends, two other levels begin: what a
pair plays without a break is one *stretch*, step by step, inside one episode of each level. Nothing
is stored but the latest play; its interactions are counted apart from those of the run.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor

from crosstraj.errors import BadInput

if TYPE_CHECKING:
    from crosstraj.envs.frame_stack import AnyEnvs


class Policies(Protocol):
    """Who plays: a policy for each level."""

    @property
    def digest(self) -> str:
        """Equal for equal policies."""

    def __call__(self, level: int, frames: Tensor) -> Tensor:
        """Frames [B, H, W, C] of a level -> probabilities of the next action [B, actions]."""


class Uniform:
    """Every action alike, on every level."""

    digest = "uniform"

    def __init__(self, actions: int) -> None:
        self.actions = actions

    def __call__(self, level: int, frames: Tensor) -> Tensor:
        return torch.full((len(frames), self.actions), 1 / self.actions)


class Stretch(NamedTuple):
    levels: tuple[int, int]  # never the same twice
    frames: Tensor  # [2, L, H, W, C] uint8
    action: Tensor  # [2, L] int64
    policy: Tensor  # [2, L, A] probabilities that each action was drawn from


class Moment(NamedTuple):
    frames: Tensor  # [2, H, W, C]
    action: Tensor  # [2]
    policy: Tensor  # [2, A]


class PairedPlay:
    """A stream of stretches; `state_dict` is the whole of it but for the generator it is given."""

    def __init__(
        self,
        make_level: "Callable[[int], AnyEnvs]",
        levels: range,
        policies: Policies,
        *,
        pairs: int,
        steps: int,
        same_actions: bool,
    ) -> None:
        self.make_level, self.levels, self.policies = make_level, levels, policies
        self.steps, self.same_actions = steps, same_actions
        self.games: dict[int, AnyEnvs] = {}  # one game per level, made when it is first played
        self.seen: dict[int, Tensor] = {}  # the frame [1, H, W, C] that each level shows
        self.playing: list[tuple[int, int] | None] = [None] * pairs
        self.frames = 0

    def play(self, rng: torch.Generator) -> list[Stretch]:
        """The next `steps` steps of each pair, cut where levels change; one step is no stretch."""
        cut = [part for index in range(len(self.playing)) for part in self._play(index, rng)]
        self.frames += 2 * self.steps * len(self.playing)
        return [stretch for stretch in cut if stretch.action.shape[1] > 1]

    def _play(self, index: int, rng: torch.Generator) -> Iterator[Stretch]:
        played: list[Moment] = []
        for left in reversed(range(self.steps)):
            levels = self.playing[index] or self._begin(index, rng)
            policy = torch.cat([self.policies(level, self.seen[level]) for level in levels])
            action = self._draw(policy, rng)
            frames = torch.cat([self.seen[level] for level in levels])
            played.append(Moment(frames, action, policy))
            ended = [self._step(*turn) for turn in zip(levels, action.tolist(), strict=True)]
            if any(ended) or not left:
                parts = (torch.stack(part, dim=1) for part in zip(*played, strict=True))
                yield Stretch(levels, *parts)
                played = []
            if any(ended):
                self.playing[index] = None

    def _begin(self, index: int, rng: torch.Generator) -> tuple[int, int]:
        """Two levels that no pair is playing, put back to their first frames."""
        busy = {level for levels in self.playing if levels for level in levels}
        free = [level for level in self.levels if level not in busy]
        first, second = (free[i] for i in torch.randperm(len(free), generator=rng)[:2].tolist())
        for level in (first, second):
            obs, _ = self._game(level).reset()
            self.seen[level] = torch.from_numpy(obs)
        self.playing[index] = first, second
        return first, second

    def _draw(self, policy: Tensor, rng: torch.Generator) -> Tensor:
        if self.same_actions:
            return policy[:1].multinomial(1, generator=rng).squeeze(1).repeat(2)
        return policy.multinomial(1, generator=rng).squeeze(1)

    def _step(self, level: int, action: int) -> bool:
        obs, _, terminated, truncated, _ = self._game(level).step(torch.tensor([action]).numpy())
        self.seen[level] = torch.from_numpy(obs)
        return bool(terminated[0] or truncated[0])

    def _game(self, level: int) -> "AnyEnvs":
        if level not in self.games:
            self.games[level] = self.make_level(level)
        return self.games[level]

    def state_dict(self) -> dict[str, Any]:
        from crosstraj.envs import savable  # only who plays has environments

        pairs = {str(index): levels for index, levels in enumerate(self.playing) if levels}
        return {
            "frames": self.frames,
            "policies": self.policies.digest,
            "levels": {index: list(levels) for index, levels in pairs.items()},
            "games": {
                str(level): self._game(level).get_state()  # type: ignore[attr-defined]  # savable
                for levels in pairs.values()
                for level in levels
                if savable(self._game(level))
            },
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["policies"] != self.policies.digest:
            raise BadInput(
                "the policies that play the levels are not those this run was saved with (experts "
                "trained further, or others in their place); restore them, or start another run"
            )
        self.frames = state["frames"]
        self.playing = [None] * len(self.playing)
        for index, levels in state["levels"].items():
            if not all(str(level) in state["games"] for level in levels):
                continue  # could not be saved: two levels begin anew
            for level in levels:
                arrays = {name: part.numpy() for name, part in state["games"][str(level)].items()}
                obs, _ = self._game(level).set_state(arrays)  # type: ignore[attr-defined]  # saved
                self.seen[level] = torch.from_numpy(obs)
            first, second = levels
            self.playing[int(index)] = first, second
