"""Linear probes: how much of an expert's behaviour can be read off an encoder's features.

record.py  the expert's play on seen and unseen levels: frames, its action distribution, rewards
linear.py  the probe: multinomial logistic regression, and what it explains
levels.py  values and differences with intervals over unseen levels
study.py   START HERE: `crosstraj probe`, from runs to judgements
show.py    the judgements as a table and a figure
"""
