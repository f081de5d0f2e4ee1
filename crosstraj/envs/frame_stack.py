"""The last frames stacked along the channels, for games whose single frame does not show motion."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from crosstraj.errors import BadInput

Frames = npt.NDArray[np.uint8]  # [N, H, W, C]
AnyEnvs = VectorEnv[Any, Any, Any]


@runtime_checkable
class Savable(Protocol):
    """An environment that can be saved, and later continued where it was."""

    def get_state(self) -> dict[str, npt.NDArray[Any]]: ...

    def set_state(self, state: Mapping[str, npt.NDArray[Any]]) -> tuple[Frames, dict[str, Any]]: ...


def savable(envs: AnyEnvs) -> bool:
    """Whether `envs` has get_state and set_state that work; a `savable` attribute may deny it."""
    return isinstance(envs, Savable) and bool(getattr(envs, "savable", True))


def as_savable(envs: AnyEnvs) -> Savable:
    """The environments by what is needed to save them, or a sentence that they cannot be saved."""
    if isinstance(envs, Savable):
        return envs
    raise BadInput(f"{envs} cannot be saved: it has no get_state and set_state")


def began_anew(info: Mapping[str, Any]) -> bool:
    """Whether set_state could not go on where the state was saved, and has begun new episodes."""
    return bool(info.get("new_episodes", False))


def require_same_step(envs: AnyEnvs) -> None:
    """Refuses environments that do not begin the next episode in the step that ends one."""
    mode = envs.metadata.get("autoreset_mode")
    if mode != AutoresetMode.SAME_STEP:
        raise BadInput(
            f"{envs} has autoreset_mode={mode}: only SAME_STEP is understood, because other modes "
            "have steps that belong to no episode; make it with AutoresetMode.SAME_STEP"
        )


class FrameStack(VectorWrapper[Frames, Any, Frames, Any, Any]):
    """Observations [N, H, W, C * depth], oldest frame first.

    An episode begins with its first frame `depth` times, so no stack shows two episodes. A
    `final_obs` in `info` is stacked too. The arrays handed out are also the memory of the past:
    they stay as they are at later steps, and the caller must not write into them.
    """

    def __init__(self, env: AnyEnvs, depth: int) -> None:
        super().__init__(env)
        require_same_step(env)
        space = env.single_observation_space
        if depth < 2:
            raise BadInput(f"depth={depth}: a stack has 2 frames or more; for 1 leave it out")
        if not isinstance(space, Box) or len(space.shape) != 3:
            raise BadInput(f"observations {space} cannot be stacked: images [H, W, C] are needed")
        self.depth = depth
        self.channels = space.shape[2]
        low, high = (np.tile(bound, (1, 1, depth)) for bound in (space.low, space.high))
        self.single_observation_space = Box(low, high, dtype=np.uint8)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        self._stack: Frames = np.zeros(self.observation_space.shape or (), np.uint8)

    @property
    def savable(self) -> bool:
        return savable(self.env)

    @property
    def observation(self) -> Frames:
        """The stacks the next action will answer."""
        return self._stack

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Frames, dict[str, Any]]:
        if options and "reset_mask" in options:
            raise BadInput("reset_mask: stacks begin anew together; reset all environments")
        frames, info = self.env.reset(seed=seed, options=options)
        self._stack = self._repeated(frames)
        return self._stack, info

    def step(self, actions: Any) -> tuple[Frames, Any, Any, Any, dict[str, Any]]:
        frames, reward, terminated, truncated, info = self.env.step(actions)
        if "final_obs" in info:
            past = self._stack[..., self.channels :]
            info = info | {"final_obs": _stacked_finals(past, info["final_obs"])}
        self._stack = _shifted(self._stack, frames)
        done = terminated | truncated
        self._stack[done] = self._repeated(frames[done])
        return self._stack, reward, terminated, truncated, info

    def _repeated(self, frames: Frames) -> Frames:
        return np.tile(frames, (1, 1, 1, self.depth))

    def get_state(self) -> dict[str, npt.NDArray[Any]]:
        return {**as_savable(self.env).get_state(), "stack": self._stack.copy()}

    def set_state(self, state: Mapping[str, npt.NDArray[Any]]) -> tuple[Frames, dict[str, Any]]:
        stack = state.get("stack")
        if stack is None or stack.shape != self._stack.shape or stack.dtype != np.uint8:
            raise BadInput(
                f"the saved state has no stack of {self.depth} frames {self._stack.shape}; "
                "restore it into an environment made with the same settings"
            )
        inner = {key: state[key] for key in state if key != "stack"}
        frames, info = as_savable(self.env).set_state(inner)
        self._stack = self._repeated(frames) if began_anew(info) else stack.copy()
        return self._stack, info


def _shifted(stack: Frames, frames: Frames) -> Frames:
    """Drops the oldest frame and adds the newest; seven times faster than `np.concatenate`."""
    channels = frames.shape[-1]
    shifted = np.empty_like(stack)
    # A pixel's frames lie side by side: moving all bytes by one frame drops the oldest of each.
    shifted.reshape(-1)[:-channels] = stack.reshape(-1)[channels:]
    for channel in range(channels):
        shifted[..., channel - channels] = frames[..., channel]
    return shifted


def _stacked_finals(past: Frames, finals: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Gymnasium's form: an object array with an image where an episode ended and None elsewhere."""
    stacked = np.full(len(finals), None, dtype=object)
    for index, final in enumerate(finals):
        if final is not None:
            stacked[index] = np.concatenate([past[index], final], axis=-1)
    return stacked
