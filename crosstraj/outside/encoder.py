"""Your network as the losses call it: uint8 frames [B, H, W, C] in, features [B, D] out."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from crosstraj.errors import BadInput
from crosstraj.nn.encoders import Encode
from crosstraj.nn.memory import Frames

WHOLE = 2**31 - 1  # more frames than any minibatch has: encoded in one piece


class FrameEncoder(nn.Module):
    """A network that wants channels first and floats, as an encoder of uint8 frames [B, H, W, C].

    network: [B, C, H, W] floats -> features [B, D]; its parameters are this module's.
    head: for `SPR`, which imagines the map before the features: then `network` gives the map
        [B, channels, h, w] and `head` makes the features of it; a ReLU at the end of an
        `nn.Sequential` is left out where the loss asks for what comes before it.
    scale: pixels are multiplied by it; 1 leaves them from 0 to 255.
    channels_first: False for a network that wants [B, H, W, C] floats.
    """

    def __init__(
        self,
        network: nn.Module,
        head: nn.Module | None = None,
        *,
        scale: float = 1 / 255,
        channels_first: bool = True,
    ) -> None:
        super().__init__()
        self.network, self.head = network, head
        self.scale, self.channels_first = scale, channels_first

    def forward(self, frames: Tensor) -> Tensor:
        """[B, H, W, C] uint8 -> [B, D]."""
        read: Tensor = self.network(self.pixels(frames))
        return read if self.head is None else self.head(read)

    def pixels(self, frames: Tensor) -> Tensor:
        """What the network is shown."""
        shown = frames.permute(0, 3, 1, 2) if self.channels_first else frames
        return shown.float() * self.scale

    def map(self, frames: Tensor) -> Tensor:
        """[B, H, W, C] uint8 -> [B, channels, h, w]."""
        self._whole_head()
        spatial: Tensor = self.network(self.pixels(frames))
        if spatial.ndim != 4:
            raise BadInput(
                f"the network of FrameEncoder(network, head) gave {list(spatial.shape)}: it must "
                "give a map [B, channels, h, w]; move what flattens it into the head"
            )
        return spatial

    def project(self, spatial: Tensor, *, rectified: bool = True) -> Tensor:
        """[B, channels, h, w] -> [B, D]; or, not rectified, what the head's last ReLU is given."""
        head = self._whole_head()
        if not rectified and isinstance(head, nn.Sequential) and isinstance(head[-1], nn.ReLU):
            head = head[:-1]
        features: Tensor = head(spatial)
        return features

    def _whole_head(self) -> nn.Module:
        if self.head is None:
            raise BadInput(
                "this loss reads the map before the features: cut the network in two, and give "
                "FrameEncoder(network, head) with the part up to the map and the part after it"
            )
        return self.head


class Reading:
    """Anybody's `encode` behind the contract of our objectives; what it gives is checked."""

    def __init__(self, encode: Callable[[Tensor], Tensor], features: int) -> None:
        self.encode: Any = encode  # with `map` and `project`, if these are called
        self.features = features

    def __call__(self, frames: Frames) -> Tensor:
        return self._checked(self._run(self.encode, frames), len(frames))

    def map(self, frames: Tensor) -> Tensor:
        if not hasattr(self.encode, "map"):
            raise BadInput(
                "this loss reads the map before the features, which a plain function does not "
                "give: pass crosstraj.FrameEncoder(network, head)"
            )
        return self._run(self.encode.map, frames)

    def project(self, spatial: Tensor, *, rectified: bool = True) -> Tensor:
        features: Tensor = self.encode.project(spatial, rectified=rectified)
        return self._checked(features, len(spatial))

    def on(self, target: nn.Module) -> Encode:
        """The same function of a target network, without a gradient."""
        piece = self.encode.piece if isinstance(self.encode, Encode) else WHOLE
        return Encode(target, live=False, piece=piece)

    def _run(self, network: Callable[[Any], Tensor], frames: Any) -> Tensor:
        try:
            return network(frames)
        except (RuntimeError, TypeError) as error:
            error.add_note(
                f"encode was given frames {list(frames.shape)}, {frames.dtype}; for a network that "
                "wants channels first and floats pass crosstraj.FrameEncoder(network)"
            )
            raise

    def _checked(self, features: Tensor, count: int) -> Tensor:
        if not isinstance(features, Tensor) or features.shape != (count, self.features):
            shape = list(features.shape) if isinstance(features, Tensor) else type(features)
            raise BadInput(
                f"encode gave {shape} for {count} frames: features=... of this loss asks for "
                f"[{count}, {self.features}]"
            )
        return features


def module_of(encoder: object) -> nn.Module:
    """The network that a target is a copy of."""
    network = encoder.encoder if isinstance(encoder, Encode) else encoder
    if not isinstance(network, nn.Module):
        raise BadInput(
            "a moving copy is made of an nn.Module that takes uint8 frames [B, H, W, C]: give "
            "attach the module that is also `encode`, such as crosstraj.FrameEncoder(network)"
        )
    return network
