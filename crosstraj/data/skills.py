"""Which skill each environment follows, and since when: the same in training and in evaluation."""

from typing import Protocol

import torch
from torch import Tensor


class Skills(Protocol):
    """What whoever plays needs of an objective: how skills are drawn, and how long one is kept."""

    context: int
    skill_steps: int

    def draw_context(self, previous: Tensor, began: Tensor, rng: torch.Generator) -> Tensor: ...


class Followed:
    """The skills that N environments follow; those of an episode's first step are drawn here.

    A skill ends with its episode, or after `skill_steps` of its steps; at 0 with the episode alone.
    """

    def __init__(
        self, skills: Skills, envs: int, device: str | torch.device, rng: torch.Generator
    ) -> None:
        self.skills = skills
        # One count serves both: a skill is as old as its episode, modulo `skill_steps`.
        self.time = torch.zeros(envs, dtype=torch.int64)  # [N] steps since the episode began
        nobody = torch.zeros(envs, skills.context, device=device)
        self.context = skills.draw_context(nobody, self.time == 0, rng)  # [N, X]

    def step(self, done: Tensor, rng: torch.Generator) -> Tensor:
        """The skills [N, X] of the next frames; `done` [N]: the action just taken ended it."""
        self.time = torch.where(done.cpu(), 0, self.time + 1)
        every = self.skills.skill_steps
        due = self.time % every == 0 if every else self.time == 0
        self.context = self.skills.draw_context(self.context, due, rng)
        return self.context


def begun(first: Tensor, done: Tensor) -> Tensor:
    """[S, N] bool: steps of episodes that began in these S steps.

    first [N]: did one begin with the first of them? done [S, N].
    """
    return torch.cat([first[None].to(done.device), done[:-1]]).long().cumsum(0) > 0
