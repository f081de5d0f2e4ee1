"""The losses outside our loop: equal to it bit for bit, exact to resume, and clear refusals."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import crosstraj as ct
from crosstraj.data.rollout import Rollout
from crosstraj.learning.learner import Learner
from crosstraj.nn.encoders import Encode
from crosstraj.outside.loss import on_device
from examples.own_objective import Inverse, InverseConfig
from tests.objectives.every_method import ACTIONS, ENVS, STEPS, learner_for, rollout_for, small

LOSSES: dict[str, type[ct.Loss[Any]]] = {
    "atc": ct.ATC,
    "ctrl": ct.CTRL,
    "curl": ct.CURL,
    "dbc": ct.DBC,
    "diayn": ct.DIAYN,
    "driml": ct.DRIML,
    "idaac": ct.IDAAC,
    "proto": ct.Proto,
    "situations": ct.Situations,
    "spr": ct.SPR,
}


def of_rollout(rollout: Rollout) -> ct.Trajectories:
    """The same play, as somebody else's buffers would give it."""
    return ct.Trajectories.of(
        rollout.obs[:-1],
        rollout.action,
        rollout.done,
        time_first=True,
        levels=rollout.level,
        rewards=rollout.reward,
        skills=rollout.skill() if rollout.context.shape[2] else None,
        channels_first=False,
    )


class Outside:
    """The parts that somebody else's agent would have, made like those of a run of ours."""

    def __init__(self, learner: Learner) -> None:
        config = learner.config
        r = config.representation
        self.encoder = copy.deepcopy(learner.agent.encoder)
        self.encode = Encode(self.encoder, live=True, piece=config.machine.piece)
        self.loss = LOSSES[config.method](
            config.objective, features=config.features, actions=ACTIONS, seed=config.seed
        )
        if self.loss.follows:
            self.loss.attach(self.encoder)
        own = [p for p in self.loss.parameters() if p.requires_grad]
        encoder = {"params": self.encoder.parameters(), "lr": r.encoder_rate * r.learning_rate}
        self.optimiser = torch.optim.Adam(
            [{"params": own}, encoder], lr=r.learning_rate, eps=r.adam_epsilon
        )
        self.how = {
            "minibatches": r.minibatches,
            "epochs": r.epochs,
            "weight": learner.objective_weight,
            "max_norm": r.max_grad_norm,
        }

    def learn(self, play: ct.Trajectories) -> dict[str, float]:
        return self.loss.learn(self.encode, play, self.optimiser, **self.how)


def alone(method: str, **values: Any) -> Learner:
    """A run of ours in which the objective alone trains the encoder, in a pass of its own."""
    return learner_for(
        small(method, encoder_grad="ssl", order="objective", phases=(), **values), side=8
    )


def same(first: nn.Module, second: nn.Module) -> bool:
    pairs = zip(first.state_dict().items(), second.state_dict().items(), strict=True)
    return all(a == b and torch.equal(x, y) for (a, x), (b, y) in pairs)


@pytest.mark.parametrize("method", LOSSES)
def test_a_loss_equals_that_of_our_own_loop_bit_for_bit(method: str) -> None:
    learner = alone(method)
    rollout, outside = rollout_for(learner, side=8), Outside(learner)
    assert same(outside.loss.objective, learner.objective)
    for _ in range(2):  # the second begins with moments, targets and a generator that have moved
        ours = learner.update_objective(rollout)
        told = {n: float(f) for n, f in learner.objective.figures().items() if f.isfinite()}
        theirs = outside.learn(of_rollout(rollout))
        assert theirs == {name: (ours | told)[name] for name in theirs}
        assert theirs.keys() >= {"objective_loss", "objective_grad_norm", *told}
        assert same(outside.loss.objective, learner.objective)
        assert same(outside.encoder, learner.agent.encoder)
    assert not same(outside.encoder, alone(method).agent.encoder)  # something was learnt


@pytest.mark.parametrize("method", LOSSES)
def test_minibatch_by_minibatch_equals_the_whole_update(method: str) -> None:
    learner = alone(method)
    play, whole, single = of_rollout(rollout_for(learner, 8)), Outside(learner), Outside(learner)
    whole.learn(play)
    for batch in single.loss.minibatches(play, 2, epochs=single.how["epochs"]):
        single.optimiser.zero_grad()
        value, evidence = single.loss(single.encode, batch)
        assert evidence
        (single.how["weight"] * value).backward()
        owned = [p for group in single.optimiser.param_groups for p in group["params"]]
        nn.utils.clip_grad_norm_(owned, single.how["max_norm"])
        single.optimiser.step()
        single.loss.after_step()
    assert same(single.encoder, whole.encoder)
    assert same(single.loss, whole.loss)


@pytest.mark.parametrize("method", LOSSES)
def test_a_saved_loss_goes_on_as_if_it_had_never_stopped(method: str, tmp_path: Any) -> None:
    learner = alone(method)
    play, going, fresh = of_rollout(rollout_for(learner, 8)), Outside(learner), Outside(learner)
    going.learn(play)
    names = ("loss", "encoder", "optimiser")
    torch.save({name: getattr(going, name).state_dict() for name in names}, tmp_path / "state.pt")
    expected = going.learn(play)
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    for name in names:
        getattr(fresh, name).load_state_dict(state[name])
    assert fresh.learn(play) == expected
    assert same(fresh.loss, going.loss)
    assert same(fresh.encoder, going.encoder)
    assert fresh.learn(play) != expected


def network(width: int = 24) -> nn.Sequential:
    """Wants channels first and floats; a map of six channels after its second layer."""
    torch.manual_seed(0)
    layers = (nn.Conv2d(3, 6, 4, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(54, width))
    return nn.Sequential(*layers, nn.ReLU())


def play_of(**changes: Any) -> ct.Trajectories:
    g = torch.Generator().manual_seed(3)
    values: dict[str, Any] = {
        "frames": torch.randint(256, (STEPS, ENVS, 8, 8, 3), generator=g, dtype=torch.uint8),
        "actions": torch.randint(ACTIONS, (STEPS, ENVS), generator=g),
        "done": torch.rand(STEPS, ENVS, generator=g) < 0.05,
        "time_first": True,
    }
    return ct.Trajectories.of(**(values | changes))


def adam(*modules: nn.Module) -> torch.optim.Adam:
    return torch.optim.Adam([p for module in modules for p in module.parameters()], lr=1e-2)


def test_a_network_that_wants_channels_first_and_floats_is_wrapped() -> None:
    wrapped, plain = ct.FrameEncoder(network()), network()
    frames = play_of().frames()[:5]
    expected = plain(frames.permute(0, 3, 1, 2).float() / 255)
    torch.testing.assert_close(wrapped(frames), expected)
    doubled = ct.FrameEncoder(nn.Flatten(), scale=2.0, channels_first=False)(frames)
    assert torch.equal(doubled, frames.flatten(1) * 2.0)
    halves = ct.FrameEncoder(plain[:2], plain[2:])
    assert torch.equal(halves.project(halves.map(frames)), wrapped(frames))
    before = halves.project(halves.map(frames), rectified=False)
    assert before.min() < 0
    assert torch.equal(before.relu(), wrapped(frames))


def test_any_callable_will_do_and_any_width() -> None:
    net = network(24)
    loss = ct.Situations(ct.SituationsConfig(clusters=4), features=24, actions=ACTIONS)
    before = copy.deepcopy(net)

    def encode(frames: Tensor) -> Tensor:
        features: Tensor = net(frames.permute(0, 3, 1, 2) / 255)
        return features

    figures = loss.learn(encode, play_of(), adam(net, loss), minibatches=1)
    assert figures["clusters_used"] >= 1
    assert not same(net, before)
    lengths = loss.get_parameter("objective.prototypes").norm(dim=1)
    torch.testing.assert_close(lengths, torch.ones(4))  # what follows a step has been done


def test_spr_imagines_maps_of_any_number_of_channels() -> None:
    net = network()
    encoder = ct.FrameEncoder(net[:2], net[2:])
    loss = ct.SPR(ct.SPRConfig(steps=2), features=24, actions=ACTIONS, channels=6)
    loss.attach(encoder)
    first = copy.deepcopy(encoder)
    assert loss.learn(encoder, play_of(), adam(encoder, loss))["prediction"] > 0
    target = dict(loss.objective.named_children())["target"]
    assert not same(target, first)  # the target has followed
    assert not same(target, encoder)


def test_diayn_pays_for_skills_that_are_told_apart() -> None:
    """A frame that shows the skill: from a blind guess, worth about 0, to nearly ln 4."""
    skill = torch.randint(4, (STEPS, ENVS), generator=torch.Generator().manual_seed(0))
    shown = (skill * 60).to(torch.uint8)[..., None, None, None].expand(-1, -1, 8, 8, 3)
    play = play_of(frames=shown, skills=skill)
    encoder = ct.FrameEncoder(network())
    loss = ct.DIAYN(ct.DIAYNConfig(skills=4), features=24, actions=ACTIONS)
    blind = loss.reward(encoder, play)
    assert blind.shape == (STEPS, ENVS)
    optimiser = torch.optim.Adam([*encoder.parameters(), *loss.parameters()], lr=1e-3)
    for _ in range(40):
        loss.learn(encoder, play, optimiser)
    assert blind.mean() < 0.1
    assert 1.0 < loss.reward(encoder, play).mean() < 1.3863


def test_an_objective_of_ones_own_is_a_loss_with_two_names() -> None:
    class Own(ct.Loss[InverseConfig]):
        parts = (InverseConfig, Inverse)

    net = network()
    loss = Own(features=24, actions=ACTIONS)
    assert same(loss, Own(features=24, actions=ACTIONS))  # though its layers are plain ones
    optimiser = adam(net, loss)
    updates = [loss.learn(ct.FrameEncoder(net), play_of(), optimiser) for _ in range(10)]
    assert updates[-1]["objective_loss"] < updates[0]["objective_loss"]


def test_no_gradient_is_left_for_somebody_elses_step() -> None:
    loss, encoder = made(), ct.FrameEncoder(network())
    loss.learn(encoder, play_of(), adam(loss, encoder))
    assert all(p.grad is None for part in (loss, encoder) for p in part.parameters())


def test_a_copy_goes_its_own_way_from_the_same_place() -> None:
    loss = made()
    twin = copy.deepcopy(loss)
    first = [batch.views.frame.tolist() for batch in loss.minibatches(play_of())]
    assert first == [batch.views.frame.tolist() for batch in twin.minibatches(play_of())]


def test_seeds_draw_heads_and_minibatches() -> None:
    def made(seed: int) -> ct.CTRL:
        return ct.CTRL(ct.CTRLConfig(clusters=4), features=64, actions=ACTIONS, seed=seed)

    assert same(made(1), made(1))
    assert not same(made(1).objective, made(2).objective)
    first, second = (next(made(seed).minibatches(play_of())).views.frame for seed in (1, 2))
    assert first.tolist() != second.tolist()


def test_nothing_draws_from_the_global_generator() -> None:
    torch.manual_seed(7)
    state = torch.get_rng_state()
    encoder = nn.Sequential(nn.Flatten(), nn.Unflatten(1, (192,)))
    loss = ct.CTRL(ct.CTRLConfig(clusters=4), features=192, actions=ACTIONS)
    loss.learn(lambda frames: encoder(frames).float(), play_of(), adam(loss))
    assert torch.equal(torch.get_rng_state(), state)


def test_batches_go_to_the_device_of_the_heads() -> None:
    loss = ct.CTRL(ct.CTRLConfig(clusters=4), features=64, actions=ACTIONS)
    batch = next(loss.minibatches(play_of()))
    moved = on_device(batch, torch.device("meta"))
    assert moved.frames.is_meta
    assert moved.views.partner.is_meta
    assert moved.probe is batch.probe


def made(**changes: Any) -> ct.CTRL:
    values = {"config": ct.CTRLConfig(clusters=4, least_rank=0.0), "features": 24}
    return ct.CTRL(**({"actions": ACTIONS} | values | changes))


def learnt(loss: ct.Loss[Any], encode: Any = None, **changes: Any) -> Any:
    encode = encode or ct.FrameEncoder(network())
    return loss.learn(encode, play_of(**changes), adam(loss))


REFUSED = {
    "SPR keeps a moving copy of the encoder: call attach": lambda: learnt(
        ct.SPR(features=24, actions=ACTIONS)
    ),
    "reads rewards: give": lambda: learnt(ct.DBC(features=24, actions=ACTIONS)),
    "CURL keeps a moving copy .* before load_state_dict": lambda: ct.CURL(
        features=24, actions=ACTIONS
    ).load_state_dict({}),
    "reads skills: give": lambda: learnt(ct.DIAYN(features=24, actions=ACTIONS)),
    "skills go up to 16, but there are skills=16": lambda: learnt(
        ct.DIAYN(features=24, actions=ACTIONS), skills=torch.full((STEPS, ENVS), 16)
    ),
    "PSE learns from pairs of levels": lambda: ct.PSE(features=24, actions=ACTIONS),
    "CTRL takes a CTRLConfig, not a SPRConfig": lambda: made(config=ct.SPRConfig()),
    "features=0: must be at least 1": lambda: made(features=0),
    "least_rank=32.0: must be 0": lambda: made(config=ct.CTRLConfig()),
    "actions go up to 4, but this loss was made with actions=3": lambda: learnt(
        made(actions=3), actions=torch.full((STEPS, ENVS), 4)
    ),
    "16 steps a row are too few: objective.keypoints=9 needs 18": lambda: learnt(
        made(config=ct.CTRLConfig(keypoints=9, least_rank=0.0))
    ),
    r"encode gave \[\d+, 25\] for \d+ frames": lambda: learnt(made(), ct.FrameEncoder(network(25))),
    "the optimiser has none of the loss's own parameters": lambda: made().learn(
        network(), play_of(), adam(network())
    ),
    "a moving copy is made of an nn.Module": lambda: ct.CURL(features=24, actions=ACTIONS).attach(
        len
    ),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_does_not_fit_is_refused_in_one_sentence(sentence: str) -> None:
    with pytest.raises(ct.BadInput, match=sentence):
        REFUSED[sentence]()


def test_an_encoder_without_a_map_is_told_how_to_give_one() -> None:
    loss = ct.SPR(features=24, actions=ACTIONS, channels=6)
    whole = ct.FrameEncoder(network())
    loss.attach(whole)
    with pytest.raises(ct.BadInput, match=r"cut the network in two, and give FrameEncoder"):
        loss.learn(whole, play_of(), adam(loss))
    with pytest.raises(ct.BadInput, match=r"a plain function does not give: pass .*FrameEncoder"):
        loss.learn(lambda frames: whole(frames), play_of(), adam(loss))
    net = network()
    flat = ct.FrameEncoder(net[:3], net[3:])
    with pytest.raises(ct.BadInput, match="must give a map"):
        loss.learn(flat, play_of(), adam(loss))


def test_a_network_that_was_not_wrapped_is_told_about_the_wrapper() -> None:
    with pytest.raises(RuntimeError) as error:
        learnt(made(), network())
    assert "pass crosstraj.FrameEncoder(network)" in "".join(error.value.__notes__)


def test_a_gradient_that_is_not_finite_is_named_and_touches_nothing() -> None:
    net, loss = network(), made()
    encoder = ct.FrameEncoder(net)
    with torch.no_grad():
        net[3].weight[0, 0] = float("nan")
    before = copy.deepcopy(loss)
    with pytest.raises(ct.NonFinite, match="the gradient of the loss's prototypes"):
        loss.learn(encoder, play_of(), adam(loss, encoder))
    weights = zip(loss.parameters(), before.parameters(), strict=True)
    assert all(torch.equal(now, then) for now, then in weights)


def test_fragments_that_are_too_short_give_no_figures() -> None:
    assert learnt(made(), done=torch.ones(STEPS, ENVS)) == {}


def test_complaints_say_what_is_wrong_in_words() -> None:
    loss = made(config=ct.CTRLConfig(clusters=100, least_rank=0.0))
    (said,) = [s for s in loss.complaints(learnt(loss)) if "views" in s and "100 clusters" in s]
    assert "fewer than 2 each" in said
    assert loss.complaints({}) == []
