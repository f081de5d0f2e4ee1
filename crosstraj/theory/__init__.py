"""The paper's theory put to the test: what fails, what holds, and how far a run keeps inside it.

`docs/theory.md` has the statements and proofs; `crosstraj theory` runs the sweeps behind them.
"""
