"""The losses of every preset on given weights and batches, as they were when first written down.

A change elsewhere (who draws from which random stream, how the trainer deals minibatches) must not
change what a method computes. Weights and batches come from generators of this file's own.
"""

import pytest
import torch

from crosstraj.config.presets import plain, preset
from crosstraj.data.rollout import Rollout
from crosstraj.nn.encoders import Encode, Impala
from tests.objectives.every_method import Played

ACTIONS, STEPS, ENVS, SIDE = 5, 48, 8, 8

GOLDEN: dict[tuple[str, str], tuple[float, ...]] = {
    ("ctrl", "default"): (8.7592497, 8.7891407),
    ("ctrl", "paper"): (7.3470364, 7.3490629),
    ("ctrl", "literal"): (805.59808, 799.65912),
    ("ctrl", "release"): (7.4456396, 7.4603815),
    ("curl", "default"): (5.2547841, 5.256309),
    ("dbc", "default"): (4.1864457, 4.62219),  # "paper" differs in who learns from it
    ("diayn", "default"): (2.7582562, 2.758383),
    ("driml", "default"): (5.0663295, 5.0245266),
    ("spr", "default"): (4.1074505, 4.1130538),
    ("proto", "default"): (6.647141, 6.6468554),
    ("pse", "default"): (70.199539, 69.573761),
}  # the presets of the others differ in how they are trained, not in the loss


def rollout() -> Rollout:
    g = torch.Generator().manual_seed(5)
    s, n = STEPS, ENVS
    return Rollout(
        obs=torch.randint(256, (s + 1, n, SIDE, SIDE, 3), generator=g, dtype=torch.uint8),
        action=torch.randint(ACTIONS, (s, n), generator=g),
        reward=torch.randn(s, n, generator=g),
        done=torch.rand(s, n, generator=g) < 0.04,
        level=torch.zeros(s, n, dtype=torch.int64),
        log_prob=torch.zeros(s, n),
        value=torch.zeros(s + 1, n),
        final_value=torch.zeros(s, n),
        features=torch.zeros(s + 1, n, 256),
        context=torch.eye(16)[torch.randint(16, (n,), generator=g)].expand(s + 1, n, 16),
    )


def losses(method: str, name: str) -> tuple[float, ...]:
    """Of the two minibatches of an epoch, in order."""
    encoder = Impala((SIDE, SIDE, 3), "laptop", "none", torch.Generator().manual_seed(1))
    config, heads = preset(method, name), torch.Generator().manual_seed(2)
    objective = config.objective_kind(config.objective, 256, ACTIONS, heads)
    objective.attach(encoder)
    objective.source = Played(SIDE)
    rng = torch.Generator().manual_seed(3)
    objective.gather(rng)
    encode = Encode(encoder, live=True, piece=128)
    batches = objective.minibatches(rollout(), 2, rng)
    return tuple(objective.loss(encode, batch, rng)[0].item() for batch in batches)


@pytest.mark.parametrize(("method", "name"), GOLDEN)
def test_losses_on_given_weights_and_batches_are_what_they_were(method, name):
    assert losses(method, name) == pytest.approx(GOLDEN[method, name], rel=2e-4)


@pytest.mark.parametrize("method", sorted({method for method, _ in GOLDEN} | {"situations"}))
def test_an_objective_reads_features_of_the_width_it_is_told(method: str) -> None:
    encoder = Impala((SIDE, SIDE, 3), "laptop", "none", torch.Generator().manual_seed(1), width=24)
    config, heads = plain(method), torch.Generator().manual_seed(2)
    objective = config.objective_kind(config.objective, 24, ACTIONS, heads)
    objective.attach(encoder)
    objective.source = Played(SIDE)
    rng = torch.Generator().manual_seed(3)
    objective.gather(rng)
    for batch in objective.minibatches(rollout(), 2, rng):
        loss, _ = objective.loss(Encode(encoder, live=True, piece=128), batch, rng)
        assert loss.isfinite()
        loss.backward()
    assert encoder.last.weight.grad is not None
    assert encoder.last.weight.shape[0] == 24
