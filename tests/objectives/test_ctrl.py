"""CTRL against a slow loop written out from the paper, its stop-gradients, values and health."""

import math
from copy import deepcopy
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crosstraj.config.presets import plain, preset
from crosstraj.config.values import Config
from crosstraj.data.rollout import Rollout
from crosstraj.data.within_episodes import Views
from crosstraj.health.instruments import clustering_health
from crosstraj.learning import watch as health
from crosstraj.nn import ops
from crosstraj.nn.encoders import Encode
from crosstraj.objectives.ctrl import CTRL, Batch, CTRLConfig
from tests.helpers import rng

SMALL = CTRLConfig(clusters=6, head_norm="none", swap_codes=False, neighbour_count=2)
PAPER = replace(SMALL, temperature=0.3, code_temperature=0.3, least_rank=0.0)


class Linear(nn.Module):
    """A stand-in for the encoder: one linear layer on four pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 256, generator=rng(9)))

    def forward(self, frames: Tensor) -> Tensor:
        return frames.flatten(1).float() / 255 @ self.weight


def make_batch(views: int, frames: int = 40, keypoints: int = 2, seed: int = 0) -> Batch:
    g = rng(seed)
    points = torch.stack([torch.randperm(frames, generator=g)[:keypoints] for _ in range(views)])
    return Batch(
        torch.randint(256, (frames, 2, 2, 1), generator=g, dtype=torch.uint8),
        torch.randint(5, (frames,), generator=g),
        Views(
            torch.arange(frames),
            points.sort(1).values,
            torch.randint(4, (views,), generator=g),
            torch.arange(views),
        ),
        level=torch.arange(frames) % 3,
        time=torch.arange(frames),
        probe=False,
    )


def ctrl(config: CTRLConfig = SMALL, seed: int = 1) -> CTRL:
    return CTRL(config, 256, 5, rng(seed))


def slow_parts(method: CTRL, encoder: Linear, batch: Batch) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Codes, cluster loss and views u, one view at a time, as Algorithm 1 prints them."""
    c, prototypes = method.config, method.prototypes
    us, scores, log_p = [], [], []
    for points in batch.views.keypoints:
        parts = []
        for t in points:
            h = encoder(batch.frames[t : t + 1])[0]
            onehot = torch.zeros(5)
            onehot[batch.action[t]] = 1.0
            out = method.film.net(onehot)
            parts.append((1 + out[:256]) * h + out[256:] if c.action_conditioning else h)
        us.append(torch.cat(parts))
        v = method.psi_clust(us[-1][None])[0]
        w = method.theta_clust(v[None])[0] if c.predictors else v
        w = w / w.norm() if c.unit_projection else w
        v = v.detach()
        near = torch.stack([v @ e / v.norm() for e in prototypes])  # e has length one
        scores.append(near / c.code_temperature)
        log_p.append(torch.log(torch.softmax(prototypes @ w / c.temperature, 0)))
    code = torch.softmax(torch.stack(scores), 1)
    code = code if c.code_gradient else code.detach()
    for _ in range(c.rounds):
        code = code / code.sum(0, keepdim=True)
        code = code / code.sum(1, keepdim=True)
    loss = torch.zeros(())
    for i in range(len(us)):
        for k in range(c.clusters):
            loss = loss - code[batch.views.partner[i], k] * log_p[i][k]
    return code, loss / len(us), us


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"temperature": 0.1, "code_temperature": 0.05},
        {"action_conditioning": False},
        {"unit_projection": False},
        {"rounds": 1},
        {"code_gradient": True},
        {"predictors": False},
        {"view_encoder": "rnn"},
    ],
)
def test_the_cluster_loss_and_its_gradient_equal_the_slow_loop(change):
    method, encoder, batch = (
        ctrl(replace(PAPER, predict_weight=0.0, **change)),
        Linear(),
        make_batch(14),
    )
    loss, metrics = method.loss(encoder, batch, rng())
    loss.backward()
    fast = [p.grad.clone() for p in (encoder.weight, method.prototypes)]
    encoder.weight.grad = method.prototypes.grad = None
    _, expected, _ = slow_parts(method, encoder, batch)
    expected.backward()
    torch.testing.assert_close(metrics["cluster"], expected, atol=1e-5, rtol=1e-5)
    for mine, theirs in zip(fast, (encoder.weight.grad, method.prototypes.grad), strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-3)


def test_swapped_codes_are_predicted_from_the_partner():
    method, encoder, batch = ctrl(PAPER), Linear(), make_batch(12)
    swapped = batch._replace(views=batch.views._replace(partner=torch.arange(12).roll(6)))
    _, metrics = method.loss(encoder, swapped, rng())
    _, expected, _ = slow_parts(method, encoder, swapped)
    torch.testing.assert_close(metrics["cluster"], expected, atol=1e-5, rtol=1e-5)
    _, plain = method.loss(encoder, batch, rng())
    assert (plain["cluster"] - metrics["cluster"]).abs() > 1e-4


def test_features_below_the_least_rank_are_unfolded_and_others_left_alone():
    """Each frame counts once, however many views it is in."""
    none = replace(PAPER, cluster_weight=0.0, predict_weight=0.0)
    batch, encoder = make_batch(14), Linear()
    rank = ops.effective_rank(encoder(batch.frames)).item()
    assert rank > 2
    method = ctrl(replace(none, least_rank=3 * rank))
    loss, metrics = method.loss(encoder, batch, rng())
    loss.backward()
    assert loss.item() == metrics["fold"].item() == pytest.approx(math.log(3), rel=1e-4)
    assert not any(grads(method).values())  # it trains the encoder alone
    with torch.no_grad():
        encoder.weight -= 1e-3 * encoder.weight.grad / encoder.weight.grad.norm()
    assert ops.effective_rank(encoder(batch.frames)) > rank
    loss, metrics = ctrl(replace(none, least_rank=0.9 * rank)).loss(encoder, batch, rng())
    encoder.weight.grad = None
    loss.backward()
    assert metrics["fold"] == 0
    assert not encoder.weight.grad.any()
    assert "fold" not in ctrl(none).loss(encoder, batch, rng())[1]


@pytest.mark.parametrize("predictors", [True, False])
@pytest.mark.parametrize("raw", [False, True])
def test_the_prediction_loss_equals_the_slow_loop_over_anchors_and_mined_views(raw, predictors):
    config = replace(PAPER, cluster_weight=0.0, raw_distance=raw, predictors=predictors)
    method, encoder, batch = ctrl(config), Linear(), make_batch(14)
    loss, metrics = method.loss(encoder, batch, rng(3))
    code, _, us = slow_parts(method, encoder, batch)
    anchor, mined, valid = method.mine(code.argmax(1), batch.views.fragment, rng(3))
    assert anchor.tolist() == list(range(14))
    total, count = torch.zeros(()), 0
    for n in range(14):
        w = method.psi_pred(us[n][None])
        w = method.theta_pred(w)[0] if predictors else w[0]
        for k in range(2):
            if not valid[n, k]:
                continue
            v = method.psi_pred(us[mined[n, k]][None])
            v = v[0].detach() if predictors else method.theta_pred(v)[0].detach()
            a, b = (w, v) if raw else (w / w.norm(), v / v.norm())
            total, count = total + ((a - b) ** 2).sum(), count + 1
    assert count > 10
    expected = total if raw else total / count
    torch.testing.assert_close(metrics["predict"], expected, atol=1e-5, rtol=1e-4)
    loss.backward()
    fast = encoder.weight.grad.clone()
    encoder.weight.grad = None
    expected.backward()
    torch.testing.assert_close(fast, encoder.weight.grad, atol=1e-4, rtol=1e-3)


def test_mined_views_come_from_the_nearest_occupied_clusters_of_other_fragments():
    method = ctrl()
    cluster = torch.randint(6, (60,), generator=rng(1))
    cluster[cluster == 4] = 5  # cluster 4 is empty
    fragment = torch.randint(5, (60,), generator=rng(2))
    unit = F.normalize(method.prototypes.detach(), dim=1)
    similarity = unit @ unit.T
    _, mined, valid = method.mine(cluster, fragment, rng())
    for n in range(60):
        others = [c for c in range(6) if c not in (int(cluster[n]), 4)]
        nearest = sorted(others, key=lambda c: -float(similarity[cluster[n], c]))[:2]
        for k in range(2):
            if valid[n, k]:
                assert int(cluster[mined[n, k]]) == nearest[k]
                assert fragment[mined[n, k]] != fragment[n]
    assert valid.float().mean() > 0.9


def test_mining_from_the_own_fragment_happens_only_when_allowed():
    cluster, fragment = torch.arange(60) % 6, torch.zeros(60, dtype=torch.int64)
    _, _, valid = ctrl().mine(cluster, fragment, rng())
    assert not valid.any()
    _, _, valid = ctrl(replace(SMALL, mine_own_fragment=True)).mine(cluster, fragment, rng())
    assert valid.all()


def test_fewer_anchors_are_a_random_subset():
    method = ctrl(replace(SMALL, anchors=7))
    cluster, fragment = torch.arange(60) % 6, torch.arange(60) // 20
    anchor, mined, _ = method.mine(cluster, fragment, rng())
    assert len(set(anchor.tolist())) == 7
    assert mined.shape == (7, 2)
    assert anchor.tolist() != method.mine(cluster, fragment, rng(1))[0].tolist()


def test_with_nothing_to_mine_the_prediction_loss_is_zero_and_has_no_gradient():
    method, encoder, batch = ctrl(replace(PAPER, cluster_weight=0.0)), Linear(), make_batch(9)
    alone = batch._replace(views=batch.views._replace(fragment=torch.zeros(9, dtype=torch.int64)))
    loss, _ = method.loss(encoder, alone, rng())
    assert float(loss.detach()) == 0.0
    loss.backward()
    assert not encoder.weight.grad.any()


def grads(method: CTRL) -> dict[str, bool]:
    """Which parts received a gradient that is not zero."""
    parts: dict[str, bool] = {}
    for name, parameter in method.named_parameters():
        part = name.partition(".")[0]
        moved = parameter.grad is not None and bool(parameter.grad.any())
        parts[part] = parts.get(part, False) or moved
    return parts


def test_each_loss_trains_its_own_branch_and_the_predictor_is_never_left_out():
    everything = {"film", "psi_clust", "theta_clust", "psi_pred", "theta_pred", "prototypes"}
    for change, expected in (
        ({}, everything),
        ({"predict_weight": 0.0}, everything - {"psi_pred", "theta_pred"}),
        ({"cluster_weight": 0.0}, {"film", "psi_pred", "theta_pred"}),
        ({"action_conditioning": False}, everything - {"film"}),
        ({"predictors": False}, everything - {"theta_clust", "theta_pred"}),
    ):
        method, encoder = ctrl(replace(PAPER, **change)), Linear()
        method.loss(encoder, make_batch(14), rng())[0].backward()
        assert {part for part, moved in grads(method).items() if moved} == expected
        assert encoder.weight.grad.any()


def test_no_gradient_flows_through_codes_or_mined_views():
    """If codes were differentiated, psi_clust would learn even where P does not depend on it."""
    method, encoder = ctrl(replace(PAPER, predict_weight=0.0)), Linear()
    with torch.no_grad():
        method.theta_clust[0].weight.zero_()  # w no longer depends on v: only the code does
        method.theta_clust[3].bias.fill_(1.0)
    method.loss(encoder, make_batch(14), rng())[0].backward()
    assert not encoder.weight.grad.any()
    assert not grads(method)["psi_clust"]
    method, encoder = ctrl(replace(PAPER, cluster_weight=0.0)), Linear()
    with torch.no_grad():
        method.theta_pred[0].weight.zero_()  # w' is constant: only mined views depend on phi
        method.theta_pred[3].bias.fill_(1.0)
    method.loss(encoder, make_batch(14), rng())[0].backward()
    assert not encoder.weight.grad.any()


def test_the_gradient_through_codes_reaches_the_prototypes_and_nothing_else():
    method, encoder = ctrl(replace(PAPER, predict_weight=0.0, code_gradient=True)), Linear()
    with torch.no_grad():
        method.theta_clust[0].weight.zero_()  # P does not depend on phi: only the codes do
        method.theta_clust[3].bias.fill_(1.0)
    method.loss(encoder, make_batch(14), rng())[0].backward()
    assert grads(method)["prototypes"]
    assert not grads(method)["psi_clust"]
    assert not encoder.weight.grad.any()


SLOW = replace(PAPER, target_decay=0.75)


def moved(config: CTRLConfig = SLOW) -> tuple[CTRL, Linear, CTRL, Linear]:
    """A method and its encoder, attached and then moved, and copies of both from before."""
    method, encoder = ctrl(config), Linear()
    before = deepcopy(method), deepcopy(encoder)
    method.attach(encoder)
    with torch.no_grad():
        for index, p in enumerate((*method.film.parameters(), *method.psi_clust.parameters())):
            p.add_(0.1 * torch.randn(p.shape, generator=rng(index)))
        method.psi_pred[0].weight.mul_(-1.0)
        encoder.weight.mul_(0.5)
    return method, encoder, *before


def encode_with(encoder: Linear) -> Encode:
    return Encode(encoder, live=True, piece=16)


def test_a_slow_copy_that_has_not_parted_yet_changes_nothing():
    encoder, batch = Linear(), make_batch(14)
    plain, slow = ctrl(PAPER), ctrl(SLOW)
    slow.attach(encoder)
    for mine, theirs in zip(
        plain.loss(encode_with(encoder), batch, rng())[1].values(),
        slow.loss(encode_with(encoder), batch, rng())[1].values(),
        strict=True,
    ):
        assert torch.equal(mine, theirs)


def test_codes_and_mined_views_come_from_the_slow_copy_and_predictions_do_not():
    method, encoder, old, old_encoder = moved()
    batch = make_batch(14)
    loss, metrics = method.loss(encode_with(encoder), batch, rng(3))
    code, _, old_us = slow_parts(old, old_encoder, batch)  # prototypes have not moved
    _, _, us = slow_parts(method, encoder, batch)
    w = ops.unit(method.theta_clust(method.psi_clust(torch.stack(us))))
    log_p = (w @ method.prototypes.T / 0.3).log_softmax(1)
    torch.testing.assert_close(metrics["cluster"], -(code * log_p).sum(1).mean())
    _, mined, valid = method.mine(code.argmax(1), batch.views.fragment, rng(3))
    w = ops.unit(method.theta_pred(method.psi_pred(torch.stack(us))))
    v = ops.unit(old.psi_pred(torch.stack(old_us)))
    distances = [(w[n] - v[mined[n, k]]).square().sum() for n, k in valid.nonzero().tolist()]
    torch.testing.assert_close(metrics["predict"], torch.stack(distances).mean())
    loss.backward()
    assert all(p.grad is None for p in method.slow.parameters())
    assert encoder.weight.grad.any()


def test_the_slow_copy_is_an_exact_moving_average_of_encoder_film_and_psi():
    method, encoder, old, old_encoder = moved()
    for _ in range(3):
        method.after_step(encoder)
    kept = 0.75**3  # the online weights stood still
    expected = {
        f"heads.{name}": p for name, p in old.state_dict().items() if name[:3] in ("fil", "psi")
    }
    expected |= {f"encoder.{name}": p for name, p in old_encoder.state_dict().items()}
    online = {f"heads.{name}": p for name, p in method.state_dict().items()}
    online |= {f"encoder.{name}": p for name, p in encoder.state_dict().items()}
    slow = method.slow.state_dict()
    assert slow.keys() == expected.keys()
    for name, value in slow.items():
        torch.testing.assert_close(value, kept * expected[name] + (1 - kept) * online[name])
    assert len(slow) == 1 + 4 + 4 + 4  # two layers each, with biases
    assert not torch.equal(slow["encoder.weight"], encoder.weight)
    assert not any(p.requires_grad for p in method.slow.parameters())


def test_without_a_decay_there_is_no_slow_copy():
    method = ctrl()
    names = list(method.state_dict())
    method.attach(Linear())
    assert list(method.state_dict()) == names


def test_prototypes_start_and_stay_on_the_unit_sphere():
    method = ctrl()
    torch.testing.assert_close(method.prototypes.norm(dim=1), torch.ones(6))
    with torch.no_grad():
        method.prototypes.mul_(3.0)
    method.after_step(nn.Identity())
    torch.testing.assert_close(method.prototypes.norm(dim=1), torch.ones(6))


def test_a_constant_encoder_gives_uniform_codes_a_loss_of_ln_c_at_least_and_a_warning_in_words():
    method, batch = (
        ctrl(replace(PAPER, action_conditioning=False)),
        make_batch(30)._replace(probe=True),
    )

    def constant(frames: Tensor) -> Tensor:
        return torch.ones(len(frames), 256)

    _, metrics = method.loss(constant, batch, rng())
    assert float(metrics["view_cosine"]) == pytest.approx(1.0, abs=1e-4)
    assert float(metrics["code_entropy"]) == pytest.approx(math.log(6), abs=1e-4)
    assert float(metrics["cluster"].detach()) >= math.log(6) - 1e-4
    config = replace(preset("ctrl", "paper"), objective=method.config)
    watch, figures = health.Watch(config), {k: float(v.detach()) for k, v in metrics.items()}
    (sentence,) = watch.news(figures)
    assert "collapsed" in sentence
    assert "1.000" in sentence
    assert watch.news(figures) == []  # said once
    assert watch.news(figures | {"view_cosine": 0.2}) == []
    assert len(watch.news(figures)) == 1  # collapsed again


def test_healthy_figures_raise_no_complaint_and_too_few_views_do():
    config = plain("ctrl")
    fine = {"view_cosine": 0.3, "code_entropy": 4.0, "code_entropy_random": 4.5, "views": 1000.0}
    assert health.complaints(fine, config) == {}
    (sentence,) = health.complaints(fine | {"views": 399.0}, config).values()
    assert "399" in sentence
    assert "200" in sentence
    assert health.complaints({}, Config()) == {}


def test_random_views_have_the_code_entropy_of_random_vectors():
    """The value that design gives for B = 1024, C = 200, D = 256: 5.277 at .3 and 5.106 at .1."""
    for temperature, expected in ((0.3, 5.277), (0.1, 5.106)):
        config = CTRLConfig(code_temperature=temperature, head_norm="none", swap_codes=False)
        centres = CTRL(config, 256, 15, rng()).prototypes
        views = torch.randn(1024, 256, generator=rng(1))
        code = torch.full((1024, 200), 1 / 200)
        figures = clustering_health(views, code, centres, temperature, config.rounds)
        assert float(figures["code_entropy_random"]) == pytest.approx(expected, abs=0.01)
        assert float(figures["code_entropy"]) == pytest.approx(math.log(200), abs=1e-4)
        assert float(figures["clusters_used"]) == 1.0


def test_what_is_remembered_is_the_partners_code_with_the_views_own_level_and_code():
    method, batch = ctrl(replace(SMALL, swap_codes=True)), make_batch(6)
    batch = batch._replace(views=batch.views._replace(partner=torch.arange(6).roll(3)))
    code = torch.eye(SMALL.clusters)[torch.arange(6) % SMALL.clusters]
    method.remember(batch, code, torch.arange(6.0))
    (kept,) = method.play.parts
    first = batch.views.keypoints[:, 0]
    assert torch.equal(kept["code"], code.roll(3, 0))
    assert torch.equal(kept["before"], code)
    assert kept["loss"].tolist() == [0, 1, 2, 3, 4, 5]
    assert kept["level"].tolist() == (first % 3).tolist()
    assert kept["time"].tolist() == [int(math.log2(t + 1)) for t in first.tolist()]


def test_the_worth_of_actions_is_what_the_loss_gains_when_they_are_mixed_and_leaves_no_trace():
    method, batch = ctrl(replace(SMALL, head_norm="batch")), make_batch(30)
    features = torch.randn(40, 256, generator=rng(4))
    u = method.dynamics(features, batch.action, batch.views.keypoints)
    code = torch.rand(30, SMALL.clusters, generator=rng(5)).softmax(1)
    cluster = -(code * method.assign(method.psi_clust(u))).sum(1).mean()
    before = {name: value.clone() for name, value in method.state_dict().items()}
    gain = method.worth_of_actions(features, batch, code, cluster)
    other = torch.randperm(40, generator=rng(0))
    u = method.dynamics(features, batch.action[other], batch.views.keypoints)
    assert all(torch.equal(value, before[name]) for name, value in method.state_dict().items())
    mixed = -(code * method.assign(method.psi_clust(u))).sum(1).mean()
    assert gain.item() == pytest.approx((mixed - cluster).item(), abs=1e-5)


def test_the_worth_of_a_view_is_what_the_loss_gains_when_partners_are_mixed():
    method, batch = ctrl(replace(SMALL, swap_codes=True)), make_batch(6)._replace(probe=True)
    batch = batch._replace(views=batch.views._replace(partner=torch.arange(6).roll(3)))
    features = torch.randn(len(batch.action), 256, generator=rng(4))
    gain = method.loss(lambda _: features, batch, rng())[1]["frame_gain"]
    v = method.psi_clust(method.dynamics(features, batch.action, batch.views.keypoints))
    code = method.code(v, SMALL.code_temperature, SMALL.rounds)[batch.views.partner]
    log_assignment = method.assign(v)
    losses = [
        -(code * guess).sum(1).mean().item()
        for guess in (log_assignment[torch.randperm(6, generator=rng(0))], log_assignment)
    ]
    assert gain.item() == pytest.approx(losses[0] - losses[1], abs=1e-6)
    assert gain != 0


def rollout_of(done: Tensor) -> Rollout:
    steps, envs = done.shape
    obs = torch.arange((steps + 1) * envs).view(steps + 1, envs, 1, 1, 1).expand(-1, -1, 2, 2, 1)
    zeros = torch.zeros(steps, envs)
    return Rollout(
        obs.to(torch.uint8).contiguous(),
        torch.arange(steps * envs).view(steps, envs) % 5,
        zeros,
        done,
        zeros.long(),
        zeros,
        torch.zeros(steps + 1, envs),
        zeros,
        torch.zeros(steps + 1, envs, 256),
        torch.zeros(steps + 1, envs, 0),
    )


@pytest.mark.parametrize("change", [{}, {"sampling": "consecutive"}, {"swap_codes": True}])
def test_minibatches_pair_each_frame_with_its_own_action(change):
    done = torch.zeros(16, 6, dtype=torch.bool)
    done[7] = True
    rollout = rollout_of(done)
    batches = list(ctrl(replace(SMALL, **change)).minibatches(rollout, 2, rng()))
    assert len(batches) == 2
    assert [b.probe for b in batches] == [True, False]
    for b in batches:
        pixel = b.frames[:, 0, 0, 0].long()
        assert (pixel == b.views.frame).all()  # frame t * N + n shows the number t * N + n
        assert (b.action == pixel % 5).all()
        early = b.views.frame[b.views.keypoints] // 6 < 8
        assert (early == early[:, :1]).all()  # no view crosses the end at step 7


def test_presets_say_what_the_paper_says():
    paper, ours = preset("ctrl", "paper"), plain("ctrl")
    o = paper.objective
    assert isinstance(o, CTRLConfig)
    assert (o.clusters, o.keypoints, o.neighbour_count) == (200, 2, 3)
    assert (o.temperature, o.code_temperature, o.rounds) == (0.3, 0.3, 3)
    assert (o.swap_codes, o.head_norm, paper.feature_norm) == (False, "none", "none")
    assert (paper.envs, paper.rollout_steps, paper.policy.epochs) == (32, 256, 1)
    assert paper.policy.learning_rate == paper.representation.learning_rate == 5e-4
    assert (paper.encoder_grad, paper.order) == ("ssl", "objective")
    assert paper.representation.encoder_rate == 1.0
    literal = preset("ctrl", "literal").objective
    assert isinstance(literal, CTRLConfig)
    assert literal == replace(o, unit_projection=False, raw_distance=True, whole_rows=True)
    release = preset("ctrl", "release")
    r = release.objective
    assert isinstance(r, CTRLConfig)
    assert (release.envs, release.policy.epochs, release.representation.epochs) == (64, 3, 1)
    assert (release.policy.learning_rate, release.representation.learning_rate) == (5e-4, 1e-4)
    assert (release.encoder_grad, release.order) == ("both", "policy")
    assert (r.keypoints, r.sampling, r.whole_rows) == (10, "consecutive", True)
    assert (r.neighbour_count, r.clusters, r.rounds) == (1, 200, 1)
    assert r.temperature == r.code_temperature == 0.1
    assert r.target_decay**8 == pytest.approx(0.05)
    assert (r.code_gradient, r.predictors, r.neighbours) == (True, False, "nearest")
    assert replace(preset("ppo", "release"), preset="procgen") == preset("ppo", "procgen")
    mine = ours.objective
    assert isinstance(mine, CTRLConfig)
    assert (mine.code_temperature, mine.temperature) == (0.05, 0.1)
    assert (mine.swap_codes, mine.head_norm, ours.feature_norm) == (True, "batch", "none")
    assert (mine.least_rank, o.least_rank, r.least_rank) == (32, 0, 0)
    assert (ours.encoder_grad, ours.order) == ("both", "policy")
    assert (ours.representation.learning_rate, ours.representation.encoder_rate) == (2e-3, 0.1)
    assert ours.policy == paper.policy == plain("ppo").policy
    assert release.policy == preset("ppo", "procgen").policy
    community = preset("ppo", "procgen")
    assert (community.envs, community.policy.epochs, community.encoder_grad) == (64, 3, "rl")
