"""Advantages by GAE (Schulman et al., 2016)."""

import torch
from torch import Tensor


def gae(
    reward: Tensor,
    value: Tensor,
    done: Tensor,
    final_value: Tensor,
    *,
    discount: float,
    trace: float,
) -> Tensor:
    """Generalised advantage estimates [S, N] (Schulman et al., 2016).

    Nothing flows over an episode's end; an episode that ran out of time is worth what its last
    frame was (`final_value`), one that ended is worth nothing more.
    """
    advantage = torch.zeros_like(reward)
    carried = torch.zeros_like(reward[0])
    for t in reversed(range(len(reward))):
        alive = 1.0 - done[t].float()
        following = alive * value[t + 1] + final_value[t]
        carried = reward[t] + discount * following - value[t] + discount * trace * alive * carried
        advantage[t] = carried
    return advantage
