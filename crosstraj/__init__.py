"""crosstraj: reinforcement-learning agents for levels they have never seen."""

__version__ = "0.1.0"
