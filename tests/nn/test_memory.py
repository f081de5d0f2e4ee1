"""Beliefs of steps in any order, against the GRU's equations taken one step at a time."""

import pytest
import torch
from torch import Tensor, nn

from crosstraj.data.episode_borders import time_of
from crosstraj.errors import BadInput
from crosstraj.nn.encoders import Encode
from crosstraj.nn.memory import Histories, RecurrentEncoder, remembering
from tests.helpers import ragged_done, rng

STEPS, ENVS, WIDTH = 9, 3, 4
# The first row ends an episode with every step, the second after 2 and 5, the third never.
DONE = torch.zeros(STEPS, ENVS, dtype=torch.bool)
DONE[:, 0], DONE[2, 1], DONE[5, 1] = True, True, True


class Below(nn.Module):
    """Pixels / 255 as features."""

    def forward(self, frames: Tensor) -> Tensor:
        return frames.flatten(1).float() / 255


def encoder(burn_in: int = 0, position: int = 0, seed: int = 0) -> RecurrentEncoder:
    """Biases are drawn too, or a wrong one would not be seen."""
    made = RecurrentEncoder(Below(), 5, WIDTH, burn_in, rng(seed), position)
    for name, weight in made.cell.named_parameters():
        if name.startswith("bias"):
            nn.init.normal_(weight, generator=rng(seed + 1))
    return made


def histories(done: Tensor = DONE, parts: int = 1, seed: int = 3) -> Histories:
    """All steps; memories as anybody might have stored them, 0 where an episode begins."""
    steps, envs = done.shape
    frames = torch.randint(256, (steps * envs, 5, 1, 1), generator=rng(seed), dtype=torch.uint8)
    memory = torch.randn(steps, envs, parts * WIDTH, generator=rng(seed + 1))
    memory[1:][done[:-1]] = 0
    place = torch.arange(steps * envs)
    return Histories(frames, memory.flatten(0, 1), time_of(done).flatten(), envs, place)


def one_step(cell: nn.GRU, x: Tensor, h: Tensor) -> Tensor:
    """The equations of a GRU, for one vector."""
    given = cell.weight_ih_l0 @ x + cell.bias_ih_l0
    kept = cell.weight_hh_l0 @ h + cell.bias_hh_l0
    (r, z, n), (hr, hz, hn) = given.chunk(3), kept.chunk(3)
    reset, update = torch.sigmoid(r + hr), torch.sigmoid(z + hz)
    return (1 - update) * torch.tanh(n + reset * hn) + update * h


def slow_beliefs(made: RecurrentEncoder, seen: Histories, done: Tensor) -> dict[int, Tensor]:
    """The belief of each chosen step; one step at a time, carried on where the one before is."""
    chosen, found = set(seen.step.tolist()), dict[int, Tensor]()
    steps, envs = done.shape
    for n in range(envs):
        for t in range(steps):
            place = t * envs + n
            if place not in chosen:
                continue
            before = place - envs
            goes_on = t > 0 and before in chosen and not done[t - 1, n]
            h = found[before] if goes_on else seen.memory[place][made.own]
            found[place] = one_step(made.cell, made.below(seen.frames[place : place + 1])[0], h)
    return found


def test_runs_are_steps_of_one_episode_that_follow_each_other():
    step = torch.tensor([7, 1, 4, 7, 10, 0, 3, 16, 13])  # rows of three: 7 is step 2 of row 1
    runs = histories().index_select(0, step).runs()
    assert runs.step.tolist() == [0, 3, 1, 4, 7, 10, 13, 16]
    assert runs.run.tolist() == [0, 1, 2, 2, 2, 3, 3, 3]  # row 1's episode ends with its step 2
    assert runs.place.tolist() == [0, 0, 0, 1, 2, 0, 1, 2]
    assert runs.first.tolist() == [0, 3, 1, 10]
    assert torch.equal(runs.step[runs.row], step)


@pytest.mark.parametrize("seed", range(4))
def test_beliefs_are_those_of_the_slow_loop_in_any_order(seed):
    done = DONE if seed == 0 else ragged_done(seed, steps=20, envs=4) | ragged_done(9, 20, 4)
    made, every = encoder(position=seed % 2, seed=seed), histories(done, parts=2, seed=seed)
    for share in (1.0, 0.6, 0.1):
        some = (torch.rand(len(every), generator=rng(seed)) < share).nonzero().squeeze(1)
        twice = torch.cat([some, some[:3]])
        order = twice[torch.randperm(len(twice), generator=rng(seed))]
        seen = every.index_select(0, order)
        expected = slow_beliefs(made, seen, done)
        torch.testing.assert_close(
            made(seen), torch.stack([expected[place] for place in order.tolist()])
        )


def test_the_gradient_goes_back_along_a_run_and_no_further():
    made, every = encoder(), histories()
    weights = torch.randn(WIDTH, generator=rng(7))
    for n, t, reached in (
        (1, 5, {3, 4, 5}),
        (1, 2, {0, 1, 2}),
        (2, 4, {0, 1, 2, 3, 4}),
        (0, 3, {3}),
    ):
        features = made.below(every.frames).requires_grad_()
        belief = made.believe(every, lambda frames, read=features: read[by_frame(every, frames)])
        (belief[t * ENVS + n] @ weights).backward()
        moved = features.grad.abs().sum(1).nonzero().squeeze(1).tolist()
        assert {place // ENVS for place in moved if place % ENVS == n} == reached
        assert {place % ENVS for place in moved} == {n}


def by_frame(every: Histories, frames: Tensor) -> Tensor:
    """The places of frames, which all differ."""
    return (frames.flatten(1)[:, None] == every.frames.flatten(1)).all(-1).long().argmax(1)


@pytest.mark.parametrize("burn_in", [1, 2, 50])
def test_burn_in_starts_further_back_in_the_same_episode_and_gives_no_gradient(burn_in):
    made, every = encoder(burn_in), histories()
    places = [7 * ENVS + 1, 8 * ENVS + 2, 4 * ENVS + 0, 2 * ENVS + 1]  # each a run of its own
    belief = made(every.index_select(0, torch.tensor(places)))
    for place, found in zip(places, belief, strict=True):
        back = min(burn_in, int(every.age[place]))
        h = every.memory[place - back * ENVS]
        for earlier in range(place - back * ENVS, place, ENVS):
            h = one_step(made.cell, made.below(every.frames[earlier : earlier + 1])[0], h)
        h = one_step(made.cell, made.below(every.frames[place : place + 1])[0], h.detach())
        torch.testing.assert_close(found, h)
    expected = torch.autograd.grad(h.sum(), made.cell.parameters())  # through the last step alone
    for one, two in zip(
        torch.autograd.grad(belief[-1].sum(), made.cell.parameters()), expected, strict=True
    ):
        torch.testing.assert_close(one, two)


def test_encoding_in_pieces_changes_nothing_and_gradients_are_the_trainers_to_decide():
    made, every = encoder(burn_in=2), histories()
    whole = made(every)
    for piece in (1, 4, 100):
        belief = Encode(made, live=True, piece=piece)(every)
        assert torch.equal(belief, whole)
        assert belief.requires_grad
        assert not Encode(made, live=False, piece=piece)(every).requires_grad
    assert not Encode(made, live=True, piece=4).on(made)(every).requires_grad


def test_weights_come_from_the_given_generator_alone():
    before = torch.default_generator.get_state()
    one, two, other = (encoder(seed=seed).state_dict() for seed in (0, 0, 1))
    assert torch.equal(before, torch.default_generator.get_state())
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["cell.weight_hh_l0"], other["cell.weight_hh_l0"])
    for gate in one["cell.weight_hh_l0"].chunk(3):  # keeps the length of what it turns
        torch.testing.assert_close(gate @ gate.T, torch.eye(WIDTH))


def test_frames_without_a_memory_stay_as_they_are_or_are_refused():
    frames = torch.zeros(2, 5, 1, 1, dtype=torch.uint8)
    assert remembering(frames, torch.zeros(2, 0)) is frames
    with pytest.raises(BadInput, match="this agent has a memory, and these frames come without"):
        encoder()(frames)
