"""Procgen levels of our own choice, which the engine, drawing them itself, cannot be asked for.

It draws from a range that is part of a saved game. So a game that has just begun a level is saved,
its range narrowed to the level wanted, and given up in an engine of one game, which then begins
that level; and what came of it is put back. All is as if the engine had drawn this level: even what
a game carries over from the episode before, such as where dodgeball's agent looks.
"""

from collections.abc import Iterable, Mapping

from crosstraj.envs.engine import GIVE_UP, Engine, Value
from crosstraj.envs.levels import Levels, NextLevel
from crosstraj.envs.saved_games import with_levels
from crosstraj.errors import BadInput


class ChosenLevels:
    """Begins the levels that `choose` says in the games of an engine; they keep their range."""

    def __init__(
        self, choose: NextLevel, game: str, levels: Levels, options: Mapping[str, Value]
    ) -> None:
        """options: those of the engine whose games are given to `begin`."""
        self._choose, self._game, self._levels = choose, game, levels
        self._aside = Engine(1, {**options, "num_threads": 0})
        self._aside.observe()

    def begin(self, engine: Engine, rows: Iterable[int]) -> None:
        """The next levels in these games of `engine`, which shows their first frames.

        What the engine says of the step before is overwritten: take it first.
        """
        for row in rows:
            level = self._choose()
            if not self._levels.first <= level < self._levels.stop:
                raise BadInput(f"level {level} is not one of {self._levels}; choose one of them")
            self._aside.restore(0, with_levels(engine.save(row), self._game, Levels(level, 1)))
            self._aside.act(GIVE_UP)
            self._aside.observe()
            engine.restore(row, with_levels(self._aside.save(0), self._game, self._levels))

    def close(self) -> None:
        self._aside.close()
