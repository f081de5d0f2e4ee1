"""Trajectories from anybody's buffers: what the losses read of play, in one layout.

`Trajectories.of` takes the layouts of other libraries and refuses, in one sentence, what it cannot
read without guessing.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from crosstraj.data.rollout import level_or_fragment
from crosstraj.errors import BadInput


@dataclass(frozen=True)
class Trajectories:
    """S steps of N environments; made by `Trajectories.of`."""

    pixels: Tensor  # [S, N, H, W, C] uint8
    action: Tensor  # [S, N] int64
    done: Tensor  # [S, N] bool: the action taken here ended the episode
    level: Tensor  # [S, N] int64; -1 where it is not known
    rewards: Tensor | None = None  # [S, N]
    skills: Tensor | None = None  # [S, N] int64

    @classmethod
    def of(
        cls,
        frames: Any,
        actions: Any,
        done: Any = None,
        *,
        time_first: bool,
        starts: Any = None,
        channels_first: bool | None = None,
        levels: Any = None,
        rewards: Any = None,
        skills: Any = None,
    ) -> "Trajectories":
        """Trajectories from tensors or NumPy arrays; frames are not copied where they fit as is.

        frames: uint8 images [S, N, H, W, C] or [S, N, C, H, W] with S steps of N environments, or,
            with time_first=False, [N, S, ...]. The channels are the axis that is shorter than
            height and width; channels_first says it where that does not tell.
        actions: [S, N] or [S, N, 1], whole numbers of any type, or one-hot [S, N, A].
        done: [S, N] or [S, N, 1]: true where the action taken at that step ended the episode, by
            termination or truncation, so that the next frame belongs to another episode.
        starts: instead of `done`, true where a step is the first of its episode (the buffers of
            Stable-Baselines3 and of CleanRL, whatever their name). With S rows, or with one more
            for the step that comes next; nothing reads that last one, because no frame follows.
        levels: [S, N] whole numbers, where they are known: CTRL's and Situations' figures then tell
            levels apart and not episodes.
        rewards: [S, N], as the policy learns from them; DBC reads them.
        skills: [S, N] whole numbers from 0; DIAYN reads them.
        """
        pixels = _pixels(torch.as_tensor(frames), time_first, channels_first)
        shape = (int(pixels.shape[0]), int(pixels.shape[1]))

        def table(name: str, values: Any, more: int = 0) -> Tensor:
            return _table(name, values, shape, time_first, more).to(pixels.device)

        if (done is None) == (starts is None):
            raise BadInput("give either done or starts: where episodes end, or where they begin")
        if done is not None:
            ends = _truth("done", table("done", done))
        else:
            ends = _ends_of(_truth("starts", table("starts", starts, more=1)), shape[0])
        whole = {
            name: _whole(name, table(name, values))
            for name, values in (("levels", levels), ("skills", skills))
            if values is not None
        }
        return cls(
            pixels,
            _whole("actions", table("actions", _from_one_hot(torch.as_tensor(actions)))),
            ends,
            whole.get("levels", torch.full(shape, -1, device=pixels.device)),
            None if rewards is None else table("rewards", rewards).float(),
            whole.get("skills"),
        )

    def frames(self) -> Tensor:
        """All frames, flat: [S * N, H, W, C] uint8."""
        return self.pixels.flatten(0, 1)

    def group(self) -> Tensor:
        """[S, N] the level of each step, or where it is not known a number for its fragment."""
        return level_or_fragment(self.level, self.done)

    @property
    def reward(self) -> Tensor:
        """[S, N]."""
        if self.rewards is None:
            raise BadInput("this loss reads rewards: give Trajectories.of(..., rewards=...)")
        return self.rewards

    def skill(self) -> Tensor:
        """[S, N] int64."""
        if self.skills is None:
            raise BadInput("this loss reads skills: give Trajectories.of(..., skills=...)")
        return self.skills


def _pixels(frames: Tensor, time_first: bool, channels_first: bool | None) -> Tensor:
    """Images [S, N, H, W, C]; channels that came first are moved without a copy."""
    if frames.ndim != 5:
        raise BadInput(
            f"frames have the shape {_shown(frames)}: give images [S, N, H, W, C] or "
            "[S, N, C, H, W] (time_first=False: [N, S, ...]); add an axis for a single channel"
        )
    if frames.dtype != torch.uint8:
        raise BadInput(
            f"frames are {_kind(frames)}: give pixels as uint8, 0 to 255, as the environment shows "
            "them; whole numbers kept as floats are converted by frames.to(torch.uint8)"
        )
    if not frames.numel():
        raise BadInput(f"frames have the shape {_shown(frames)}: there is nothing in them")
    first, middle, last = frames.shape[2:]
    if channels_first is None:
        if not (first < min(middle, last) or last < min(first, middle)):
            raise BadInput(
                f"frames have the shape {_shown(frames)}, which does not tell where the channels "
                "are; say channels_first=True or channels_first=False"
            )
        channels_first = first < last
    if not time_first:
        frames = frames.transpose(0, 1).contiguous()  # once, and not for every minibatch
    return frames.permute(0, 1, 3, 4, 2) if channels_first else frames


def _table(name: str, values: Any, shape: tuple[int, int], time_first: bool, more: int) -> Tensor:
    """One number per step, [S, N], or where `more` is 1 and one row more is given [S + 1, N]."""
    given = torch.as_tensor(values)
    found = given.squeeze(2) if given.ndim == 3 and given.shape[2] == 1 else given
    found = found.transpose(0, 1) if found.ndim == 2 and not time_first else found
    steps, envs = shape
    if tuple(found.shape) not in {(steps, envs), (steps + more, envs)}:
        order = (steps, envs) if time_first else (envs, steps)
        axes = "[S, N]" if time_first else "[N, S]"
        raise BadInput(
            f"{name} has the shape {_shown(given)}, and the frames have {axes} = {[*order]}: "
            "give one number for each step of each environment, or correct time_first"
        )
    return found


def _from_one_hot(actions: Tensor) -> Tensor:
    """[S, N, A] with one 1 in each row -> [S, N]; anything else as it is."""
    if actions.ndim != 3 or actions.shape[2] == 1:
        return actions
    if not (((actions == 0) | (actions == 1)).all() and (actions.sum(2) == 1).all()):
        raise BadInput(
            f"actions have the shape {_shown(actions)} and are not one-hot: the losses know one "
            "action of a discrete set per step; number the combinations of several"
        )
    return actions.long().argmax(2)


def _whole(name: str, values: Tensor) -> Tensor:
    """int64 from 0 on; whole numbers that are kept as floats are what they mean."""
    if values.dtype.is_floating_point and not (values - values.round() == 0).all():
        raise BadInput(f"{name} are {_kind(values)} and not whole: give numbers from 0 on")
    least = values.min()
    if least < 0:
        raise BadInput(f"{name} go down to {least:g}: they are counted from 0")
    return values.long()


def _truth(name: str, values: Tensor) -> Tensor:
    """bool from any type that holds 0 and 1 alone."""
    if not ((values == 0) | (values == 1)).all():
        raise BadInput(f"{name} holds other values than 0 and 1: true and false are needed")
    return values.bool()


def _ends_of(starts: Tensor, steps: int) -> Tensor:
    """An episode has ended where the next step is the first of another, [S, N]."""
    ends = torch.zeros_like(starts[:steps])
    following = starts[1 : steps + 1]
    ends[: len(following)] = following
    return ends


def _shown(values: Tensor) -> list[int]:
    return list(values.shape)


def _kind(values: Tensor) -> str:
    return str(values.dtype).removeprefix("torch.")
