"""The tables that an experiment file may ask for, each with its figure.

Start with `make.py`, which finds the table by its name; `results.py` reads what runs have reached.
"""
