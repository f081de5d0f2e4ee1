"""Many runs from one TOML file, and the tables and figures made of them.

Start with `file.py` (what a file may say), then `plan.py` (its runs), `jobs.py` (made exact),
`processes.py` (which runs them on this machine), `cluster/` (on many machines), `kept.py` (where
finished ones are kept) and `tables/`.
`expert_runs.py` and `random_play.py` make what some methods and tables are held against. May import
everything but cli.
"""
