"""Every value of a run, where it comes from, and which values do not go together.

Start with `methods.py` (the names of methods and presets, for people), then `values.py` (the
dataclasses behind the command line) and `phases.py` (parts of a budget). May import: objectives,
policies and what is below them.
"""
