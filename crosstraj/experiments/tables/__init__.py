"""The tables that an experiment file may ask for, each with its figure.

Start with `make.py`, which finds the table by its name; `kinds.py` says which there are and what
each asks of its file. `results.py` is one line of a table for each run, `scores.py` the returns of
a variant, `page.py` what all pages share. Reading, statistics, cells and figures are those of
crosstraj.report.
"""
