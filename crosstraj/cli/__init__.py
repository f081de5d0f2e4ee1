"""The command line: one file for each command, which parses, calls the library and prints.

Start with `main.py`, which finds the command and turns a refusal into one sentence. A command's
heavy imports stand inside its function, so that `--help` answers at once. May import everything.
"""
