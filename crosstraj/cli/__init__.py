"""The command line: one file for each command, which parses, calls the library and prints.

Start with `main.py`: its table has every command, and it turns a refusal into one sentence. What a
command can be told is a dataclass in its file: `options.py` reads it, `parse.py` makes it of words,
`help.py` shows it; `run_values.py` does so for the values of a training run. A command's heavy
imports stand inside its function, so that `--help` answers at once. May import everything.
"""
