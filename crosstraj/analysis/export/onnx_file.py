"""The policy as ONNX: frames [B, H, W, C] uint8 -> log-probabilities [B, A] and values [B].

Any number of frames at once. What was written is run by ONNX's own reference implementation and
held against torch before anybody gets it.
"""

import warnings
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import Tensor, nn

from crosstraj.errors import BadInput
from crosstraj.learning.load import Trained
from crosstraj.learning.networks import encoders_of
from crosstraj.nn.encoders import Impala
from crosstraj.policies.agent import Agent

BOUND = 1e-5  # of a difference between ONNX and torch, in log-probabilities and values
TRIED = 3  # frames, none of which is a batch of the export


class Deciding(nn.Module):
    """An agent as one function of frames, in float32 and without our own kernels."""

    def __init__(self, agent: Agent) -> None:
        super().__init__()
        self.agent = deepcopy(agent).float().cpu().eval()
        for encoder in encoders_of(self.agent):
            encoder.autocast = False
            if isinstance(encoder, Impala):
                encoder.native = None

    def forward(self, frames: Tensor) -> tuple[Tensor, Tensor]:
        nobody = torch.zeros(frames.shape[0], 0)
        features = self.agent.read(self.agent.encoder, frames)
        return self.agent.decide(frames, features, nobody)[:2]


def onnx_bytes(trained: Trained, image: tuple[int, int, int]) -> bytes:
    """The file; refused where it does not decide as torch does."""
    if trained.agent.film is not None:
        raise BadInput("--onnx: this policy follows skills, which its ONNX file could not be given")
    if trained.agent.memory:
        raise BadInput("--onnx: this policy has a memory, which its ONNX file could not carry on")
    network = Deciding(trained.agent)
    frames = torch.zeros(2, *image, dtype=torch.uint8)
    with TemporaryDirectory() as place, warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")
        path = Path(place) / "model.onnx"
        torch.onnx.export(
            network,
            (frames,),
            path,
            input_names=["frames"],
            output_names=["log_probs", "values"],
            dynamic_axes={name: {0: "batch"} for name in ("frames", "log_probs", "values")},
            dynamo=False,
        )
        data = path.read_bytes()
    check(data, network, image)
    return data


def check(data: bytes, network: Deciding, image: tuple[int, int, int]) -> None:
    """ONNX and torch on the same frames."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    drawn = np.random.default_rng(0).integers(0, 256, (TRIED, *image), np.uint8)
    found = ReferenceEvaluator(onnx.load_from_string(data)).run(None, {"frames": drawn})
    with torch.inference_mode():
        expected = network(torch.from_numpy(drawn))
    for what, ours, theirs in zip(("log_probs", "values"), expected, found, strict=True):
        difference = float(np.abs(ours.numpy() - theirs).max())
        if not difference <= BOUND:
            raise BadInput(
                f"--onnx: {what} differ from torch's by {difference:.1e}, more than {BOUND:g}; "
                "leave --onnx out"
            )
