"""Where episodes begin and end in a rollout: the fragment of each step, and its time.

A *fragment* is the part of one episode that lies in one row of the rollout.
"""

import torch
from torch import Tensor


def fragments(done: Tensor) -> Tensor:
    """[S, N] bool -> the number of the fragment of each step, counted over rows and episodes."""
    began = torch.zeros_like(done)
    began[0] = True
    began[1:] = done[:-1]
    return (began.T.flatten().long().cumsum(0) - 1).unflatten(0, began.T.shape).T.contiguous()


def time_of(done: Tensor) -> Tensor:
    """[S, N] steps since the episode of each step began, or the rollout."""
    step = torch.arange(len(done), device=done.device)[:, None].expand_as(done)
    began = torch.zeros_like(step)
    began[1:] = torch.where(done[:-1], step[1:], 0)
    return step - began.cummax(0).values
