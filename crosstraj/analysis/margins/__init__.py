"""How far views are from the border of their cluster, and what one changed frame does to them.

Start with `probe.py` (`crosstraj margins`); `measure.py` has the figures.
"""
