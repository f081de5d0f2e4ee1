"""How far views are from the border of their cluster, and what one changed frame does to them.

Start with `robustness.py` (`crosstraj margins`): views of a run, one frame of each changed by
`perturb.py`, measured by `measure.py` with the cells of `theory/prototype_cells.py`, drawn by
`figure.py`.
"""
