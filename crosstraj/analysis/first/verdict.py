"""What a first run came to, in one sentence: random play, your agent, and one of ours."""

import math
from typing import NamedTuple

SURE = 1.96  # standard errors: 95 % of a normal distribution


class Judged(NamedTuple):
    """Mean raw return on levels never seen."""

    name: str
    score: float  # NaN: not measured
    stderr: float

    @property
    def low(self) -> float:
        return self.score - SURE * self.stderr

    @property
    def high(self) -> float:
        return self.score + SURE * self.stderr


class Verdict(NamedTuple):
    """One sentence with the numbers, and what they say."""

    numbers: str
    meaning: str

    def __str__(self) -> str:
        return f"{self.numbers} {self.meaning}"


def verdict(game: str, chance: Judged, yours: Judged, shipped: Judged | None) -> Verdict:
    numbers = [f"yours {yours.score:.1f}"]
    if math.isfinite(chance.score):
        numbers.insert(0, f"random play {chance.score:.1f}")
    if shipped is not None:
        numbers.append(f"the agent that comes with crosstraj {shipped.score:.1f}")
    first = f"On levels of {game} that it has never seen: {', '.join(numbers)}."
    return Verdict(first, f"{learnt(chance, yours)} One seed each is no ranking.")


def learnt(chance: Judged, yours: Judged) -> str:
    """Whether the intervals, over episodes, lie apart."""
    if not math.isfinite(chance.score):
        return "Random play was not measured here, so this does not show that it has learnt."
    if yours.low > chance.high:
        return "Your agent has learnt something that holds on new levels."
    if yours.high < chance.low:
        return "Your agent plays worse than at random: this run has not learnt yet."
    return "That is not above random play by more than its error: train it longer."
