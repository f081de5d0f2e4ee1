"""What keeps policy and values still while features change: standardisation and refitting."""

import torch

from crosstraj.agent import Agent
from crosstraj.networks import FEATURES, FeatureNorm, Standardise

IMAGE, ACTIONS, SKILLS = (16, 16, 3), 5, 2


def make(norm: FeatureNorm = "standard") -> Agent:
    rng = torch.Generator().manual_seed(0)
    agent = Agent(
        IMAGE, ACTIONS, encoder="laptop", feature_norm=norm, context=SKILLS, rng=rng
    ).double()
    torch.nn.init.normal_(agent.policy.weight, generator=rng)  # the usual start is nearly zero
    torch.nn.init.normal_(agent.policy.bias, generator=rng)
    return agent


def draw(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def frames(count: int) -> torch.Tensor:
    rng = torch.Generator().manual_seed(2)
    return torch.randint(0, 256, (count, *IMAGE), generator=rng, dtype=torch.uint8)


def test_standardising_changes_features_and_nothing_else() -> None:
    agent, images, context = make(), frames(64), draw(64, SKILLS)
    features = agent.encoder.features(images)
    said = agent.heads(features, context)
    returned = agent.standardise(features.detach())
    now = agent.encoder.features(images)
    torch.testing.assert_close(now, returned)
    for before, after in zip(said, agent.heads(now, context), strict=True):
        torch.testing.assert_close(before, after)
    alive = features.std(0) > 0.06 * features.std(0).mean()
    assert alive.sum() > FEATURES / 4
    torch.testing.assert_close(now.mean(0), torch.zeros_like(now[0]), atol=1e-9, rtol=0)
    torch.testing.assert_close(now.std(0)[alive], torch.ones_like(now[0])[alive])
    assert now.std(0).max() < 1 + 1e-9  # what hardly varies is not blown up


def test_standardising_twice_equals_standardising_the_raw_features() -> None:
    twice, once = make(), make()
    images = frames(64)
    raw = once.encoder.features(images).detach()
    twice.standardise(3 * raw[:32] + 1)  # any other statistics before
    twice.standardise(twice.encoder.features(images).detach())
    once.standardise(raw)
    alive = raw[:32].std(0) > 0.2 * raw.std(0).mean()  # others have a bound, which is relative
    assert alive.sum() > FEATURES / 4
    now, expected = (agent.encoder.features(images)[:, alive] for agent in (twice, once))
    torch.testing.assert_close(now, expected)


def test_other_norms_are_left_alone() -> None:
    agent = make("layer")
    before = {name: value.clone() for name, value in agent.state_dict().items()}
    features = draw(8, FEATURES)
    assert agent.standardise(features) is features
    assert all(torch.equal(value, before[name]) for name, value in agent.state_dict().items())


def test_statistics_are_part_of_the_state() -> None:
    agent, other = make(), make()
    agent.standardise(draw(64, FEATURES))
    assert isinstance(agent.encoder.norm, Standardise)
    other.load_state_dict(agent.state_dict())
    assert torch.equal(agent.encoder.features(frames(3)), other.encoder.features(frames(3)))


def test_refitting_undoes_a_linear_change_of_the_features() -> None:
    agent, before, context = make(), draw(2000, FEATURES), draw(2000, SKILLS, seed=5)
    turn = torch.linalg.qr(draw(FEATURES, FEATURES, seed=3)).Q
    after = 1.5 * before @ turn + 0.3
    said = agent.heads(before, context)
    broken = agent.heads(after, context)
    assert (broken[1] - said[1]).std() > 0.5 * said[1].std()
    agent.refit(before, after, context)
    for was, now in zip(said, agent.heads(after, context), strict=True):
        assert (was - now).std() < 0.01 * was.std()  # the ridge leaves a little


def test_refitting_on_equal_features_changes_nothing() -> None:
    agent, features, context = make(), draw(500, FEATURES), draw(500, SKILLS, seed=5)
    weight, bias = agent.policy.weight.clone(), agent.value.bias.clone()
    agent.refit(features, features, context)
    assert torch.equal(agent.policy.weight, weight)
    assert torch.equal(agent.value.bias, bias)
