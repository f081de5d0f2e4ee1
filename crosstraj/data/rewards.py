"""The scale of rewards for learning; reported returns are raw."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosstraj.errors import NonFinite


class RewardNormaliser:
    """Scales rewards by the spread of a running discounted return, as OpenAI's VecNormalize.

    Per step: returns grow, their variance is updated, the reward is scaled by it and clipped, and
    only then are the returns of ended episodes forgotten. The mean is not subtracted.
    """

    def __init__(self, envs: int, *, discount: float = 0.99, clip: float = 10.0) -> None:
        # 0.99, not PPO's 0.999: what train-procgen, PPG, IDAAC and the released CTRL use.
        self.discount, self.clip = discount, clip
        self.returns = np.zeros(envs, np.float64)
        self.mean, self.variance, self.count = 0.0, 1.0, 1e-4

    def __call__(self, reward: Tensor, done: Tensor) -> Tensor:
        """Raw rewards and dones [S, N] -> rewards for learning [S, N]."""
        if not reward.isfinite().all():
            raise NonFinite("a reward is not finite")
        raw, ended = reward.cpu().numpy().astype(np.float64), done.cpu().numpy()
        scaled = np.empty_like(raw)
        for t in range(len(raw)):
            self.returns = self.discount * self.returns + raw[t]
            self._merge(self.returns)
            scale = np.sqrt(self.variance + 1e-8)
            scaled[t] = np.clip(raw[t] / scale, -self.clip, self.clip)
            self.returns[ended[t]] = 0.0
        return torch.from_numpy(scaled).to(reward)

    def _merge(self, batch: NDArray[np.float64]) -> None:
        """Chan's parallel update of mean and population variance."""
        size, total = len(batch), self.count + len(batch)
        delta = float(batch.mean()) - self.mean
        squares = self.variance * self.count + float(batch.var()) * size
        self.variance = (squares + delta**2 * self.count * size / total) / total
        self.mean += delta * size / total
        self.count = total

    def state_dict(self) -> dict[str, Any]:
        return {
            "returns": torch.from_numpy(self.returns.copy()),
            "mean": self.mean,
            "variance": self.variance,
            "count": self.count,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.returns = state["returns"].numpy().copy()
        self.mean, self.variance, self.count = state["mean"], state["variance"], state["count"]
