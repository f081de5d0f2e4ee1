"""`python -m tools.random_play`: random play of all 16 games on every kind of levels, kept.

Seconds for each; what is measured already is not played again. In the default set-up of the games:
easy mode, 200 training levels.
"""

from crosstraj.config.values import Config
from crosstraj.envs import GAMES
from crosstraj.experiments.random_play import measure
from crosstraj.learning.evaluation import SPLITS
from crosstraj.runs.shipped import random_return


def main() -> None:
    for game in GAMES:
        for levels in SPLITS:
            config = Config(env=game)
            measure(config, levels)
            found = random_return(config, levels)
            print(f"{game}, {levels} levels: {found.score:.3f} ({found.stderr:.3f})", flush=True)


if __name__ == "__main__":
    main()
