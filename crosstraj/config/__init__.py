"""Every value of a run, where it comes from, and which values do not go together.

Start with `methods.py` (the registry: names of methods and presets, and their sources), then
`values.py` (the dataclass behind the command line; its groups in `groups.py`).
`presets.py` are tables of values with their sources, and what the command line begins with;
`stored.py` is what a run keeps of its configuration and what tells runs apart; `dotted.py` changes
and compares values by name. May import: objectives, policies and what is below them.
"""
