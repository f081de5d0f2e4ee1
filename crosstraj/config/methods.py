"""The registry of methods, and the presets, in tables that import nothing heavy.

A method's line is all that it needs beside its file, `crosstraj/objectives/NAME.py`: the file is
found by that name, as a command's is, and imported when the method is asked for. So `crosstraj
methods` and the refusal of a misspelt name answer at once, without torch.
"""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from crosstraj.objectives.method import Brought


class Entry(NamedTuple):
    summary: str
    source: str
    own: "Brought | None" = None
    """A method that a person brought along with `--with FILE`; never from a run directory."""


METHODS = {
    "atc": Entry(
        "PPO on an encoder that it does not train: contrasting frames with later ones does",
        "Stooke et al., Decoupling Representation Learning from RL (ATC), ICML 2021",
    ),
    "ctrl": Entry(
        "PPO, and cluster views of trajectories, predict across neighbouring clusters",
        "Mazoure et al., Cross-Trajectory Representation Learning, ICLR 2022",
    ),
    "curl": Entry(
        "PPO, and two shifts of one frame must agree more than shifts of different frames",
        "Laskin et al., CURL, ICML 2020",
    ),
    "daac": Entry(
        "PPO whose policy and values learn in two networks; an advantage head beside the policy",
        "Raileanu and Fergus, Decoupling Value and Policy for Generalization, ICML 2021",
    ),
    "dbc": Entry(
        "PPO, and features as far apart as rewards and transitions differ",
        "Zhang et al., Learning Invariant Representations (DBC), ICLR 2021",
    ),
    "diayn": Entry(
        "skills that can be told apart, rewarded for it; then PPO on the game's own reward",
        "Eysenbach et al., Diversity Is All You Need, ICLR 2019; phases: CTRL paper, appendix",
    ),
    "drac": Entry(
        "PPO, and its policy and values must not change where a frame is augmented",
        "Raileanu et al., Automatic Data Augmentation for Generalization, NeurIPS 2021",
    ),
    "driml": Entry(
        "PPO, and features of a step must tell which frame follows it",
        "Mazoure et al., Deep Reinforcement and InfoMax Learning, NeurIPS 2020",
    ),
    "idaac": Entry(
        "DAAC, and features from which nobody can tell which of two frames came first",
        "Raileanu and Fergus, Decoupling Value and Policy for Generalization, ICML 2021",
    ),
    "situations": Entry(
        "PPO, and predict the cluster of a later frame from an earlier one and the actions between",
        "ours, after CTRL: docs/methods.md",
    ),
    "spr": Entry(
        "PPO, and an action-conditioned model must predict the features of frames to come",
        "Schwarzer et al., Self-Predictive Representations, ICLR 2021",
    ),
    "ppg": Entry(
        "PPO in two networks, and phases in which the policy's learns values and stays in place",
        "Cobbe et al., Phasic Policy Gradient, ICML 2021",
    ),
    "ppo": Entry(
        "PPO with an IMPALA encoder, as practised on Procgen",
        "Schulman et al., 2017; Cobbe et al., Leveraging Procedural Generation, ICML 2020",
    ),
    "proto": Entry(
        "PPO and prototypes that successive frames share; then heads alone on a frozen encoder",
        "Yarats et al., Proto-RL, ICML 2021; phases: CTRL paper, appendix",
    ),
    "pse": Entry(
        "PPO, and embed two states close together if good policies act alike from there on",
        "Agarwal et al., Contrastive Behavioral Similarity Embeddings, ICLR 2021",
    ),
}

PRESETS = {
    "default": Entry("our own choice of values", "docs/methods.md"),
    "paper": Entry(
        "the paper's values, each ambiguity resolved", "CTRL paper, table of experiment parameters"
    ),
    "literal": Entry(
        "`paper` with raw w, raw summed distances and keypoints over whole rows",
        "CTRL paper, equations and Algorithm 1 as printed",
    ),
    "release": Entry(
        "the released code's values, with the bugs repaired that keep it from running",
        "bmazoure/ctrl_public; docs/methods.md",
    ),
    "procgen": Entry(
        "the community's PPO values: 64 environments, 3 epochs", "openai/train-procgen"
    ),
    "source": Entry(
        "weight, learning rate and target decay of the method's own paper or code",
        "crosstraj/config/presets.py names it beside each value",
    ),
}

FLAG = "--with"


def words_for(method: str) -> list[str]:
    """What a command needs beside `--method`, for a method that was brought along."""
    own = METHODS[method].own
    return [FLAG, own.file] if own else []


def brought() -> dict[str, "Brought"]:
    """The methods that were brought along, by name."""
    return {name: entry.own for name, entry in METHODS.items() if entry.own}
