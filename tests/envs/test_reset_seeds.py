"""Seeds as levels: drawn equally often; refusals."""

import numpy as np
import pytest

from crosstraj.envs import GymnasiumConfig
from crosstraj.envs.levels import Levels
from crosstraj.envs.reset_seeds import drawn_level
from crosstraj.errors import BadInput


def test_the_stream_draws_every_level_equally_often() -> None:
    drawn = [drawn_level(Levels(7, 5), 3, number) for number in range(5000)]
    numbers, counts = np.unique(drawn, return_counts=True)
    assert numbers.tolist() == [7, 8, 9, 10, 11]
    assert abs(counts - 1000).max() < 120  # four standard deviations
    other = [drawn_level(Levels(7, 5), 4, number) for number in range(5000)]
    assert abs(np.mean(np.array(drawn) == other) - 0.2) < 0.03


@pytest.mark.parametrize(
    "wrong",
    [{"train_levels": -1}, {"first_level": -1}, {"first_level": 2**29, "train_levels": 2**29}],
)
def test_impossible_splits_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(BadInput, match=r"gymnasium\.train_levels="):
        GymnasiumConfig(**wrong)
