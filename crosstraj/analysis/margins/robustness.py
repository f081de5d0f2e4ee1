"""`crosstraj margins`: views of a trained run, one frame of each perturbed, and how they move.

The frozen policy plays as many steps as one rollout of its training; the views are one minibatch of
it, drawn as in training, never across an episode's end. Networks are in evaluation mode (running
averages in batch norm), so that a view depends on its own frames alone.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crosstraj.analysis.margins.measure import Margins, measure
from crosstraj.analysis.margins.perturb import PERTURBATIONS
from crosstraj.config.groups import LevelSplit
from crosstraj.config.values import Config
from crosstraj.data.collect import Collector
from crosstraj.data.within_episodes import VIEWS
from crosstraj.errors import BadInput
from crosstraj.learning.display import stage
from crosstraj.learning.evaluation import Examiner
from crosstraj.learning.load import load, refuse_memory
from crosstraj.nn.encoders import Encode
from crosstraj.nn.memory import pixels
from crosstraj.objectives.base import Clustering
from crosstraj.randomness import Streams


def probe(
    run: Path, step: int | None, levels: LevelSplit, seed: int
) -> tuple[Margins, dict[str, Any]]:
    """Measure a run; also what was measured."""
    if seed < 0:
        raise BadInput(f"seed={seed}: must not be negative")
    config, agent, objective, frames = load(run, step)
    clustering = objective.clustering()
    refuse_memory(agent, run, "margins are measured by changing one frame")
    if clustering is None:
        raise BadInput(
            f"{run} has no clusters: it was trained with {config.method}; margins are measured "
            "against the prototypes of a method such as ctrl"
        )
    if clustering.centred:
        raise BadInput(
            f"{run} was trained with {config.method}, whose codes are of frames less the mean of "
            "their stretch; margins are of views as they are, such as ctrl's"
        )
    weights = [*agent.state_dict().values(), *objective.state_dict().values()]
    if not all(tensor.isfinite().all() for tensor in weights):
        raise BadInput(
            f"the weights of {run} at {frames} frames are not finite; give --step with an earlier "
            "snapshot"
        )
    torch.set_num_threads(config.threads)
    # The pools of evaluation, with as many environments as in training.
    count = config.envs
    shape = replace(config.evaluation, envs=count, episodes=count)
    config = replace(config, seed=seed, evaluation=shape)
    device, streams = torch.device(config.machine.device), Streams(seed)
    collector = Collector(
        Examiner(config).pool(levels).envs,
        config.rollout_steps,
        agent.reads,
        objective,
        seed,
        streams.acting,
        device,
    )
    with stage(f"playing {levels} levels with {run}"):
        rollout = collector.collect(agent)
    points = draw_points(clustering, rollout.done.cpu(), config, streams.objective)
    encode = Encode(agent.encoder, live=False, piece=config.machine.piece)
    played = pixels(rollout.frames()), rollout.action.flatten()
    found = look(clustering, encode, *played, points.to(device), streams.objective, seed)
    return found, {
        "run": run.resolve().name,
        "frames": frames,
        "levels": levels,
        "seed": seed,
        "clusters": len(clustering.prototypes),
        "keypoints": clustering.keypoints,
        "views": len(points),
    }


def draw_points(
    clustering: Clustering, done: Tensor, config: Config, rng: torch.Generator
) -> Tensor:
    """[B, T] places t * N + n in the rollout: the views of one training minibatch."""
    draw, count = VIEWS[clustering.sampling], config.representation.minibatches
    drawn = draw(done, count, clustering.keypoints, swap=False, cross=False, rng=rng)
    views = next(drawn, None)
    if views is None or len(views.keypoints) < 2:
        raise BadInput(
            f"too few views of {clustering.keypoints} steps fit into the episodes that the run "
            "plays; try --levels seen, another --seed, or an earlier snapshot (--step)"
        )
    return views.frame[views.keypoints]


@torch.no_grad()
def look(
    clustering: Clustering,
    encode: Encode,
    frames: Tensor,
    action: Tensor,
    points: Tensor,
    rng: torch.Generator,
    seed: int,
) -> Margins:
    """Embed the views whose frames are at `points` [B, T], as played and with one frame changed."""
    count, length = points.shape
    features = encode(frames.index_select(0, points.flatten())).unflatten(0, points.shape)
    actions = action[points]
    place = torch.randint(length, (count,), generator=rng)  # which frame of each view
    rows = torch.arange(count)
    chosen = frames.index_select(0, points[rows, place]).cpu()
    perturbed = {}
    for name, change in PERTURBATIONS.items():
        moved = features.clone()
        moved[rows, place] = encode(change(chosen, rng).to(frames.device))
        perturbed[name] = clustering.embed(moved, actions)
    return measure(
        clustering.prototypes,
        clustering.embed(features, actions),
        perturbed,
        temperature=clustering.temperature,
        rounds=clustering.rounds,
        rng=np.random.default_rng(seed),
    )
