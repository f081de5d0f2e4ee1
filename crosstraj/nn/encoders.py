"""The encoders: IMPALA (Espeholt et al., 2018), cheaper ones, and how their maps are pooled.

`Encode` is the one place where frames pass the encoder: piece by piece, so that activations stay in
the cache, and live or gradient-free as the trainer decides.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, assert_never, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from crosstraj.nn.heads import linear, undrawn
from crosstraj.nn.memory import Frames, Histories
from crosstraj.nn.native import Shape, Trunk

ImpalaKind = Literal["impala", "laptop", "slim"]
EncoderKind = Literal[ImpalaKind, "lattice"]
Pooling = Literal["none", "mean", "pyramid"]
FeatureNorm = Literal["none", "layer"]
SplitAt = Literal["fc", "conv"]
FEATURES = 256  # width of what an encoder gives, unless told otherwise (every Procgen code base)
MAP_CHANNELS = 32  # of the last map, in every encoder
IMPALA = Shape(1, (16, 32, MAP_CHANNELS), 2)  # as in every Procgen code base
SHAPES: dict[ImpalaKind, Shape] = {
    "impala": IMPALA,
    "laptop": IMPALA._replace(stride=2),
    "slim": Shape(1, (16, 16, MAP_CHANNELS), 1),
}


def convolution(inputs: int, outputs: int, stride: int, rng: torch.Generator) -> nn.Conv2d:
    """A 3x3 convolution with Xavier-uniform weights and zero bias, drawn from `rng` alone."""
    with undrawn():
        layer = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1)
    assert layer.bias is not None  # for the type checker
    nn.init.xavier_uniform_(layer.weight, generator=rng)
    nn.init.zeros_(layer.bias)
    return layer


class Residual(nn.Module):
    """x + conv(relu(conv(relu(x)))): the skip path carries x itself, not its rectified copy."""

    def __init__(self, channels: int, rng: torch.Generator) -> None:
        super().__init__()
        self.first = convolution(channels, channels, 1, rng)
        self.second = convolution(channels, channels, 1, rng)

    def forward(self, x: Tensor) -> Tensor:
        # In place where nobody needs the operand again: fewer passes over memory, and less of it.
        return self.second(F.relu_(self.first(F.relu(x)))).add_(x)


def normalisation(kind: FeatureNorm, width: int) -> nn.Module:
    """No learned scale: nothing can shrink what the linear heads read."""
    match kind:
        case "none":
            return nn.Identity()
        case "layer":
            return nn.LayerNorm(width, elementwise_affine=False)
        case other:
            assert_never(other)


def impala_stages(
    image: tuple[int, int, int], shape: Shape, rng: torch.Generator
) -> tuple[nn.Sequential, int]:
    """The three stages of an encoder of this shape, and how many numbers they leave of an image."""
    height, width, channels = image
    layers: list[nn.Module] = []
    for stage, out in enumerate(shape.channels):
        stride = shape.stride if stage == 0 else 1
        layers += [convolution(channels, out, stride, rng), nn.MaxPool2d(3, stride=2, padding=1)]
        layers += [Residual(out, rng) for _ in range(shape.blocks)]
        channels = out
        height, width = (math.ceil(math.ceil(side / stride) / 2) for side in (height, width))
    return nn.Sequential(*layers), height * width * channels


def pool(spatial: Tensor, pooling: Pooling) -> Tensor:
    """[B, C, h, w] -> what the last layer reads of a map: [B, C h w], [B, C] or [B, 5 C].

    `mean` is global average pooling, as in Impoola (Trumpp et al., 2025). `pyramid` puts the means
    of the map's four quarters before it, so that something is left of where things are.
    """
    match pooling:
        case "none":
            return spatial.flatten(1)
        case "mean":
            return spatial.mean((2, 3))
        case "pyramid":
            quarters = F.adaptive_avg_pool2d(spatial, 2)
            return torch.cat([quarters.flatten(1), spatial.mean((2, 3))], dim=1)
        case other:
            assert_never(other)


def pooled_size(map_size: int, pooling: Pooling) -> int:
    """How many numbers `pool` leaves of a map of `map_size`."""
    means: dict[Pooling, int] = {"none": map_size // MAP_CHANNELS, "mean": 1, "pyramid": 5}
    return means[pooling] * MAP_CHANNELS


class ImageEncoder(nn.Module):
    """Frames [B, H, W, C] uint8 -> features [B, width]: stages, pooling, and one linear layer.

    `map` is what the stages make of frames, and `project` all that comes after them.
    """

    def __init__(
        self,
        stages: nn.Sequential,
        map_size: int,
        feature_norm: FeatureNorm,
        rng: torch.Generator,
        pooling: Pooling = "none",
        width: int = FEATURES,
    ) -> None:
        super().__init__()
        self.stages, self.map_size, self.width = stages, map_size, width
        self.pooling: Pooling = pooling
        self.last = linear(pooled_size(map_size, pooling), width, math.sqrt(2), rng)
        self.norm = normalisation(feature_norm, width)
        self.autocast = False
        self._compiled_sizes: tuple[int, ...] = ()
        self._compiled: Callable[[Tensor], Tensor] = self.features
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's types

    def map(self, frames: Tensor) -> Tensor:
        """[B, H, W, C] uint8 -> [B, 32, h, w]; a permuted NHWC tensor is channels-last: no copy."""
        pixels = frames.permute(0, 3, 1, 2).to(self.last.weight.dtype).mul_(1 / 255)
        with self._precision(frames):
            return F.relu_(self.stages(pixels)).to(pixels.dtype)

    def project(self, spatial: Tensor, *, rectified: bool = True) -> Tensor:
        """[B, 32, h, w] -> [B, width]: pooling and the last layer; or what its ReLU is given."""
        with self._precision(spatial):
            read = self.last(pool(spatial, self.pooling))
            return (self.norm(F.relu_(read)) if rectified else read).to(spatial.dtype)

    def features(self, frames: Tensor) -> Tensor:
        return self.project(self.map(frames))

    def forward(self, frames: Tensor) -> Tensor:
        run = self._compiled if len(frames) in self._compiled_sizes else self.features
        return run(frames)

    def _precision(self, x: Tensor) -> torch.autocast:
        return torch.autocast(x.device.type, torch.bfloat16, enabled=self.autocast)

    def compile_for(self, *sizes: int) -> None:
        """Compile for these batch sizes; others stay eager, for each shape is compiled anew."""
        self._compiled, self._compiled_sizes = torch.compile(self.features, dynamic=False), sizes


class Impala(ImageEncoder):
    """IMPALA's three stages of residual blocks, or a cheaper shape of them.

    `laptop` is the same network with a stride of 2 in its first convolution: every later map has a
    quarter of the pixels, and so has the cost. `slim` keeps the resolution, and has one residual
    block per stage instead of two and 16 channels instead of 32 in the second stage: 42 % of the
    cost. One block alone would cost 65 %.
    """

    def __init__(
        self,
        image: tuple[int, int, int],
        kind: ImpalaKind,
        feature_norm: FeatureNorm,
        rng: torch.Generator,
        pooling: Pooling = "none",
        width: int = FEATURES,
    ) -> None:
        shape = SHAPES[kind]
        stages, map_size = impala_stages(image, shape, rng)
        super().__init__(stages, map_size, feature_norm, rng, pooling, width)
        self.image, self.shape, self.native = image, shape, cast(Trunk | None, None)

    def map(self, frames: Tensor) -> Tensor:
        return super().map(frames) if self.native is None else self.native(frames)

    def use_native(self) -> None:
        """Our own kernels instead of the library's, from now on; in bfloat16 with `autocast`."""
        parameters = self.stages.parameters()
        self.native = Trunk(parameters, self.shape, self.image, bfloat16=self.autocast)


class Lattice(ImageEncoder):
    """Two convolutions, and the mean over the map: on a lattice no place differs from another.

    For the 32 x 32 lattices of the Ising task.
    """

    def __init__(
        self,
        channels: int,
        feature_norm: FeatureNorm,
        rng: torch.Generator,
        width: int = FEATURES,
    ) -> None:
        stages = nn.Sequential(
            convolution(channels, 16, 1, rng),
            nn.ReLU(),
            convolution(16, MAP_CHANNELS, 2, rng),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
        )
        super().__init__(stages, MAP_CHANNELS, feature_norm, rng, width=width)


def make_encoder(
    image: tuple[int, int, int],
    kind: EncoderKind,
    feature_norm: FeatureNorm,
    rng: torch.Generator,
    pooling: Pooling = "none",
    width: int = FEATURES,
) -> ImageEncoder:
    """The encoder of this name, for images of height, width and channels."""
    if kind == "lattice":
        return Lattice(image[2], feature_norm, rng, width)
    return Impala(image, kind, feature_norm, rng, pooling, width)


class Encode:
    """The encoder as a function of any number of frames: encoded in pieces, live or gradient-free.

    `low_memory` keeps no activations and encodes each piece again in the backward pass: one forward
    more per frame, and memory no longer grows with the minibatch.
    """

    def __init__(self, encoder: nn.Module, *, live: bool, piece: int, low_memory: bool = False):
        self.encoder: Any = encoder  # with `map` and `project`, or `believe`, if these are called
        self.live, self.piece, self.low_memory = live, piece, low_memory

    def __call__(self, frames: Frames) -> Tensor:
        """Frames [B, H, W, C] uint8 -> features [B, D]; histories -> beliefs [B, D]."""
        if not isinstance(frames, Histories):
            return self._pieces(self.encoder, frames)
        with torch.set_grad_enabled(self.live and torch.is_grad_enabled()):
            belief: Tensor = self.encoder.believe(frames, partial(self._pieces, self.encoder.below))
        return belief

    def map(self, frames: Tensor) -> Tensor:
        """Frames -> the map before pooling and the encoder's last layer, [B, channels, h, w]."""
        return self._pieces(self.encoder.map, frames)

    def project(self, spatial: Tensor, *, rectified: bool = True) -> Tensor:
        """The encoder's last layer. A map that an objective has imagined gets its gradient always;
        only the layer's own is the trainer's to decide."""
        weights = [] if self.live else [p for p in self.encoder.parameters() if p.requires_grad]
        for weight in weights:
            weight.requires_grad_(False)
        features: Tensor = self.encoder.project(spatial, rectified=rectified)
        for weight in weights:
            weight.requires_grad_(True)
        return features

    def on(self, target: nn.Module) -> "Encode":
        """The same function of another network, without a gradient: for targets."""
        return Encode(target, live=False, piece=self.piece)

    def _pieces(self, run: Callable[[Tensor], Tensor], frames: Tensor) -> Tensor:
        with torch.set_grad_enabled(self.live and torch.is_grad_enabled()):
            return torch.cat([self._piece(run, part) for part in frames.split(self.piece)])

    def _piece(self, run: Callable[[Tensor], Tensor], frames: Tensor) -> Tensor:
        if not (self.low_memory and torch.is_grad_enabled()):
            return run(frames)
        result: Tensor = checkpoint(run, frames, use_reentrant=False, preserve_rng_state=False)
        return result
