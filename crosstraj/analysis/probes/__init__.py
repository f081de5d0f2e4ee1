"""Linear probes: how much of an expert's behaviour can be read off an encoder's features.

ranking.py   START HERE: `crosstraj probe`, from runs to judgements
record.py    the expert's play: frames, its action distribution, whether a reward follows soon
agents.py    the agents that are judged, and their features of those frames
linear.py    the probe: multinomial logistic regression with soft targets
judge.py     a probe fitted on seen levels, measured on unseen ones, compared
intervals.py values and differences with intervals over unseen levels
variants.py  the table `screen`: variants of several seeds; archive.py keeps what is found
show.py      the judgements as tables and a figure
"""
