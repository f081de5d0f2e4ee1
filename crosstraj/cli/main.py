"""The command line: finds the command; a refusal is one sentence and an exit code, no traceback.

Nothing heavy is imported here, so that `--help` and `methods` answer at once.
"""

import atexit
import gc
import importlib
import os
import sys
from collections.abc import Sequence

from crosstraj import __version__
from crosstraj.errors import Refusal, naming_extras, unknown

# The one table of commands: each is the function of its name in the module of its name.
COMMANDS = {
    "first": "a first run worth seeing: train for a short while, judge, one page (make run)",
    "train": "train a method; run the same command again to go on where it stopped",
    "evaluate": "play a trained agent on seen, unseen or validation levels",
    "experiment": "run all that a TOML file stands for, and make its table and figure",
    "experts": "train one expert per level, for methods that play with them (pse)",
    "check": "try a method of your own: two equal runs, a stop, gradients, episode ends",
    "curves": "draw the learning and health curves of a run",
    "report": "tables, statistics and figures of runs, as one page",
    "margins": "how far views are from their cluster's border, and how far one frame moves them",
    "theory": "search for violations of what docs/theory.md proves, and count what fails",
    "analyse": "what a run has learnt: clusters, figures, a table of views; several runs compared",
    "watch": "watch an agent play seen and unseen levels: a clip, or live in a terminal",
    "explore": "one HTML page to look at what a run has learnt",
    "probe": "rank encoders by how well an expert's behaviour is read off their features",
    "export": "write an agent for other people: weights, values, a card, a clip; --push",
    "runs": "every run at a glance: status, frames, return, size, age, owner; --watch",
    "clean": "remove what runs can make again: old checkpoints, leftovers of killed saves",
    "methods": "what there is to train, and where it comes from",
    "doctor": "check this machine: versions, cores, memory, the game engine",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    if arguments is None:  # Else it would look for garbage in all of torch before the process ends.
        atexit.register(gc.freeze)
    name, *rest = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        if any(word.partition("=")[0] == "--with" for word in rest):
            with naming_extras():
                from crosstraj.config.own import bring
            rest = bring(rest)
        match name:
            case "-h" | "--help":
                print(usage())
            case "--version":
                print(__version__)
            case found if found in COMMANDS:
                with naming_extras():
                    command = importlib.import_module(f"crosstraj.cli.{found}")
                    getattr(command, found)(rest)
            case _:
                raise unknown("command", name, COMMANDS)
    except Refusal as refusal:
        print(f"crosstraj: {refusal}", file=sys.stderr)
        return refusal.exit_code
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # 128 + SIGPIPE, as in a shell
    return 0


def usage() -> str:
    lines = "\n".join(f"  {name:<11} {what}" for name, what in COMMANDS.items())
    return (
        "usage: crosstraj COMMAND ...\n\n"
        "Train reinforcement-learning agents that work on levels they have never seen.\n\n"
        f"commands:\n{lines}\n\n"
        "crosstraj COMMAND --help says more. A method of your own: any command, --with FILE\n"
        "(docs/own_objective.md)."
    )
