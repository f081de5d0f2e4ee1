"""Published returns of methods that are not in the CTRL paper, all after 25 million frames.

Returns on unseen levels (easy, 200 levels). Each column has its source; nothing is known here of
ATC, which was published on other benchmarks, nor game by game of Impoola and of DrAC without UCB.
"""

import math
from collections.abc import Mapping
from typing import Any

from crosstraj.report.published import RELEASED_DAAC, Published, additions, read_columns

LATER_FRAMES = 25_000_000
# PPO and PPG: from the scores of 10 runs that came with rliable,
# where the authors of IDAAC gave them; sample deviation. IDAAC and UCB-DrAC: as the CLOP paper
# prints them, without a number of seeds; its IDAAC agrees with the curves of IDAAC's authors (10
# seeds), which rliable's runs of IDAAC exceed (bigfish 21.1). PLR: its paper's table, 10 seeds.
LATER = read_columns(
    ("PPO", "PPG", "IDAAC", "UCB-DrAC", "PLR", "UCB-DrAC + PLR"),
    """
bigfish    3.7±1.3 11.3±0.9 18.5±1.2  9.2±2.0 10.9±2.8 14.3±2.1
bossfight  7.4±0.4 10.2±0.7  9.8±0.6  7.8±0.6  8.9±0.4  8.8±0.8
caveflyer  5.0±0.3  7.2±0.8  5.0±0.6  5.0±0.8  6.3±0.5  6.8±0.7
chaser     3.6±0.9  9.5±0.8  6.8±1.0  6.3±0.6  6.9±1.2  8.0±0.6
climber    5.6±0.5  7.3±0.7  8.3±0.4  6.3±0.6  6.3±0.8  6.8±0.7
coinrun    8.6±0.2  8.8±0.8  9.4±0.1  8.8±0.2  8.8±0.5  9.0±0.4
dodgeball  1.6±0.1  2.3±0.6  3.2±0.3  4.2±0.9  1.8±0.5 10.3±1.4
fruitbot  26.1±1.2 28.3±0.6 27.9±0.5 27.6±0.4 28.0±1.3 27.6±1.5
heist      2.5±0.6  3.2±0.5  3.5±0.2  3.5±0.4  2.9±0.5  4.9±1.3
jumper     5.9±0.2  5.6±0.7  6.3±0.2  6.2±0.3  5.8±0.5  5.9±0.3
leaper     4.9±2.2  8.8±0.6  7.7±1.0  4.8±0.9  6.8±1.2  8.7±1.0
maze       5.5±0.3  5.5±0.8  5.6±0.3  6.3±0.1  5.5±0.8  7.2±0.8
miner      8.6±0.8  7.4±0.6  9.5±0.4  9.2±0.6  9.6±0.6 10.0±0.5
ninja      5.9±0.3  6.7±0.7  6.8±0.4  6.6±0.4  7.2±0.4  7.0±0.5
plunder    5.2±0.7 15.0±1.6 23.3±1.4  8.3±1.1  8.7±2.2  7.7±0.9
starpilot 24.9±1.0 48.1±1.5 37.0±2.3 30.0±1.3 27.9±4.4 29.6±2.2
""",
)
LATER["DAAC"] = {
    game: Published(curve[LATER_FRAMES], math.nan) for game, curve in RELEASED_DAAC.items()
}
RLIABLE, CLOP = "Agarwal 2021, its data", "Bertoin 2022, table 2"
SOURCES = {  # docs/report.md has them in full
    "PPO": RLIABLE,
    "PPG": RLIABLE,
    "DAAC": "Raileanu 2021, fig. 7",
    "IDAAC": CLOP,
    "UCB-DrAC": CLOP,
    "PLR": "Jiang 2021, table 2",
    "UCB-DrAC + PLR": "Jiang 2021, table 2",
}
# What the others are held against; alone they are shown at smaller budgets.
BASELINES = {"PPO", "DAAC"}


def later_name(config: Mapping[str, Any]) -> str:
    """What a run is called above: by its values, for a method may be a value of another."""
    ucb = config.get("objective", {}).get("augmentation") == "ucb"
    match config["method"], sorted(additions(config)):
        case "ppo" | "daac" | "idaac" | "ppg" as method, []:
            return str(method).upper()
        case "ppo", ["replay"]:
            return "PLR"
        case "drac", [] if ucb:
            return "UCB-DrAC"
        case "drac", ["replay"] if ucb:
            return "UCB-DrAC + PLR"
        case _:
            return ""
