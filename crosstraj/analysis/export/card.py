"""The card of an agent: README.md with the tags and the `model-index` that model hubs read.

Names come from a run directory, which may be a stranger's. In the head they are JSON strings, which
are YAML's, too; in the text each character that Markdown or HTML takes for its own is escaped.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from crosstraj.config.values import Config
from crosstraj.envs import GAMES
from crosstraj.report.document import Block, Heading, Items, Table, Text, markdown, plain
from crosstraj.runs.shipped import random_return

SPLITS = ("seen", "unseen", "validation")
# Of the machine that trained it, of the engine that played, and of the code.
SAID = ("torch", "python", "engine", "machine", "cpu", "threads", "kernels", "bfloat16", "code")


class Subject(NamedTuple):
    """What a card is about."""

    name: str
    config: Config
    frames: int  # of training, behind these weights
    evaluation: Mapping[str, Any]  # a row of metrics.jsonl, {} if it was never evaluated
    facts: Mapping[str, Any]  # of the machine that trained it, {} if unknown
    files: tuple[str, ...]  # beside the card
    licence: str = ""  # as hubs name it; "": its owner has not said


def card(subject: Subject) -> str:
    """The whole file."""
    return f"---\n{head(subject)}---\n\n{markdown(body(subject))}{pictures(subject)}"


def head(subject: Subject) -> str:
    """YAML: what a hub sorts and shows agents by."""
    config = subject.config
    family = "procgen" if config.env in GAMES else "gymnasium"
    tags = ["reinforcement-learning", "deep-reinforcement-learning", "crosstraj"]
    tags += [family, config.env, config.method]
    lines = ["library_name: crosstraj", "pipeline_tag: reinforcement-learning"]
    lines += [f"license: {quoted(subject.licence)}"] if subject.licence else []
    lines += ["tags:", *(f"- {quoted(tag)}" for tag in dict.fromkeys(tags))]
    judged_on = [split for split in SPLITS if f"{split}_return" in subject.evaluation]
    results = [result(subject, split) for split in judged_on]
    if results:
        lines += ["model-index:", f"- name: {quoted(subject.name)}", "  results:"]
        lines += [f"  - {json.dumps(each)}" for each in results]
    return "\n".join(lines) + "\n"


def result(subject: Subject, split: str) -> dict[str, Any]:
    """One entry of the `model-index`; JSON is YAML, too."""
    env, evaluation = plain(subject.config.env), subject.evaluation
    value = f"{evaluation[f'{split}_return']:.2f} +/- {evaluation[f'{split}_stderr']:.2f}"
    metric = {"type": "mean_reward", "name": f"mean_reward on {split} levels", "value": value}
    return {
        "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
        "dataset": {"name": f"{env}, {split} levels", "type": env},
        "metrics": [metric | {"verified": False}],
    }


def quoted(text: str) -> str:
    """A string of YAML that nothing in it can end."""
    return json.dumps(plain(text))


def body(subject: Subject) -> list[Block]:
    config = subject.config
    return [
        Heading(subject.name, 1),
        Text(
            f"{config.method} on {config.env}, trained with crosstraj for {subject.frames:,} "
            f"frames ({share(subject)}) from one seed, {config.seed}."
        ),
        Heading("How good it is"),
        *judged(subject),
        Heading("How it was made"),
        Items(made(subject)),
        Heading("How to use it"),
        Items(used(subject)),
    ]


def share(subject: Subject) -> str:
    budget = subject.config.frames
    if subject.frames >= budget:
        return "its whole budget"
    return f"of a budget of {budget:,}: training had not ended"


def judged(subject: Subject) -> list[Block]:
    """Returns beside random play; what the error is of, and what it is not."""
    evaluation, config = subject.evaluation, subject.config
    if not evaluation:
        return [Text("Its run was not evaluated, so nothing is known of how well it plays.")]
    rows = []
    for split in SPLITS:
        if f"{split}_return" in evaluation:
            chance = random_return(config, split)  # type: ignore[arg-type]  # one of them
            rows.append(
                [
                    *(split, number(evaluation[f"{split}_return"])),
                    *(number(evaluation[f"{split}_stderr"]), number(chance.score)),
                ]
            )
    words = (
        f"Raw returns after {evaluation['frames']:,} frames, over {config.evaluation.episodes} "
        f"episodes per row, actions {'greedy' if config.evaluation.greedy else 'sampled'}. The "
        "standard error is that of episodes of this one agent; it says nothing of other seeds."
    )
    head = ("levels", "mean return", "standard error", "random play")
    return [Table(words, head, rows)]


def number(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else "not measured"


def made(subject: Subject) -> list[str]:
    config = subject.config
    lines = [
        f"method {config.method}, preset {config.preset}, encoder {config.encoder}, policy "
        f"{config.policy.kind}; every value is in config.json",
        levels_of(config),
        f"{subject.frames:,} frames in {config.envs} environments, seed {config.seed}",
    ]
    facts = [fact(name, subject.facts[name]) for name in SAID if name in subject.facts]
    lines.append("trained on: " + (", ".join(facts) if facts else "not recorded"))
    lines.append(f"licence of the weights: {subject.licence or 'not stated'}")
    if config.start:
        lines.append(f"it started from other weights, SHA-256 {config.start}")
    return lines


def fact(name: str, value: object) -> str:
    """In the words of the command line, where a checkpoint has others."""
    if name == "bfloat16":
        return f"precision {'bf16' if value else 'fp32'}"
    return f"{name} {value}"


def levels_of(config: Config) -> str:
    """Which levels it has seen."""
    if config.env in GAMES:
        first, count = config.procgen.first_level, config.procgen.train_levels
        which = f"levels {first} to {first + count - 1}" if count else "all levels"
        return f"trained on {which} of {config.env}, {config.procgen.mode} mode"
    if config.train_levels:
        return f"trained on {config.train_levels} levels of {config.env}"
    return f"trained on {config.env}, which has no levels to keep apart"


def used(subject: Subject) -> list[str]:
    lines = [
        "crosstraj watch DIRECTORY shows it at play; crosstraj evaluate DIRECTORY judges it again",
        "crosstraj train --from DIRECTORY goes on from its weights",
        "in Python: crosstraj.load(DIRECTORY).agent.act(frames), frames uint8 [B, H, W, C]",
    ]
    if "model.onnx" in subject.files:
        lines.append(
            "model.onnx takes the same frames, and gives log-probabilities and values "
            "(float32, equal to torch's to 1e-5)"
        )
    return lines


def pictures(subject: Subject) -> str:
    clips = [name for name in subject.files if name.startswith("clip.")]
    words = "The agent on levels it was trained on, and on levels it has never seen"
    return "".join(f"\n![{words}]({name})\n" for name in clips)
