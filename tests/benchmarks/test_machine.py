"""FLOPs per frame: what is counted of a rollout, against the network's own size."""

from dataclasses import replace

import pytest

from benchmarks.machine import flops_per_frame
from crosstraj.config.presets import plain


def test_an_auxiliary_phase_counts_however_seldom_it_comes() -> None:
    """Two epochs on both networks, each as dear as the one epoch of either in the policy phase, and
    one look at what the policy says before: a forward pass of one of two networks, a sixth.
    """
    config = replace(plain("ppg"), envs=1, encoder="laptop")
    config = replace(config, policy=replace(config.policy, auxiliary_epochs=2))
    counted = flops_per_frame(config)
    assert counted["auxiliary phase"] / counted["policy"] == pytest.approx(2 + 1 / 6, rel=0.01)
    alone = replace(plain("ppo"), envs=1, encoder="laptop")
    assert not flops_per_frame(alone).get("auxiliary phase")
