"""crosstraj in anybody's program: the losses for an agent that is not ours, and runs from Python.

Start with `loss.py` (what every loss does), then `losses.py` (one class per method), `encoder.py`
(your network, as a loss calls it) and `run.py` (`preset`, `train`, `load`). The losses need torch
and numpy alone. The names are those of `import crosstraj`, which imports them when they are asked
for. docs/your_agent.md is the guide. May import: loop, learning and everything below.
"""
