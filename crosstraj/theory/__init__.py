"""The paper's theory put to the test: what fails, what holds, and how far a run keeps inside it.

`docs/theory.md` has the statements and proofs; `crosstraj theory` runs the sweeps behind them.
Start with `statements.py` (every statement, searched for violations) or `code_variants.py` (what
codes become, learnt in small). `prototype_cells.py` is the geometry of clusters,
`decision_processes.py` the tabular processes that the rest is tried on. May import: nn.
"""
