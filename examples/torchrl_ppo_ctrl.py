"""CTRL in TorchRL: a `LossModule` beside `ClipPPOLoss`, and one joint step on the sum of both.

What to copy: `CTRLLoss`. Then, where `data` is [N, T], as a collector gives it (rows of steps in
order, not shuffled), and `encoder` takes uint8 pixels [B, H, W, C]:

    ctrl = CTRLLoss(encoder, ct.CTRLConfig(clusters=32), features=512, actions=7)
    optimizer = torch.optim.Adam([*ppo.parameters(), *ctrl.own_parameters()])
    ctrl.follow(optimizer)                                  # what must come after every step
    losses = ppo(data.reshape(-1)).update(ctrl(data))       # sum what begins with loss_

To see it run on MiniGrid, its figures in TorchRL's CSV logger:
pip install '.[recipes]' && python examples/torchrl_ppo_ctrl.py
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec

import gymnasium
import torch
from minigrid.wrappers import ImgObsWrapper
from tensordict import NestedKey, TensorDict, TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictSequential, dispatch
from torch import Tensor, nn

import crosstraj as ct

if not find_spec("gym3"):  # TorchRL imports procgen where it is, even if that lacks its own needs
    sys.modules.setdefault("procgen", None)
from torchrl.collectors import Collector
from torchrl.envs import GymWrapper, SerialEnv
from torchrl.modules import ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss, LossModule
from torchrl.objectives.value import GAE
from torchrl.record import CSVLogger


class CTRLLoss(LossModule):
    """CTRL on rows of steps [N, T]: `loss_ctrl`, and its figures without a gradient.

    `parameters()` and `state_dict()` have the encoder as well, the latter also CTRL's generator.
    """

    @dataclass
    class _AcceptedKeys:
        pixels: NestedKey = "pixels"  # [N, T, H, W, C] or [N, T, C, H, W], uint8
        action: NestedKey = "action"  # [N, T], or one-hot [N, T, A]
        done: NestedKey = "done"  # [N, T, 1] under "next": the action taken here ended the episode

    out_keys = ("loss_ctrl", "view_cosine", "code_entropy", "codes_about_level")
    functional = False  # the encoder is the policy's own, not a copy with other weights

    def __init__(
        self,
        encoder: nn.Module,
        config: ct.CTRLConfig,
        *,
        features: int,
        actions: int,
        weight: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.encoder, self.weight = encoder, weight
        self.ctrl = ct.CTRL(config, features=features, actions=actions, seed=seed)
        self.ctrl.attach(encoder)  # for a target_decay

    @property
    def in_keys(self) -> list[NestedKey]:
        keys = self.tensor_keys
        return [keys.pixels, keys.action, ("next", keys.done)]

    def own_parameters(self) -> Iterator[nn.Parameter]:
        """Without the encoder, for an optimiser that has it already."""
        return self.ctrl.parameters()

    def follow(self, optimizer: torch.optim.Optimizer) -> None:
        """Targets and prototypes follow each step of the optimiser."""
        optimizer.register_step_post_hook(lambda *_: self.ctrl.after_step())

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> TensorDict:
        pixels, action, done = (tensordict.get(key) for key in self.in_keys)
        play = ct.Trajectories.of(pixels, action, done, time_first=False)
        batch = next(self.ctrl.minibatches(play, 1), None)
        if batch is None:  # all pieces of episodes are too short
            return TensorDict({"loss_ctrl": torch.zeros((), device=pixels.device)})
        loss, evidence = self.ctrl(self.encoder, batch)
        figures = {name: torch.as_tensor(seen) for name, seen in self.ctrl.figures().items()}
        figures |= {name: seen.detach() for name, seen in evidence.items()}
        return TensorDict({"loss_ctrl": self.weight * loss, **figures})


class Encoder(nn.Module):
    """uint8 pixels [..., H, W, C] -> features [..., 512]; batches here have one axis or two."""

    def __init__(self) -> None:
        super().__init__()
        layers = [nn.Conv2d(3, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU()]
        layers += [nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(512), nn.ReLU()]
        self.frames = ct.FrameEncoder(nn.Sequential(*layers))

    def forward(self, pixels: Tensor) -> Tensor:
        return self.frames(pixels.flatten(0, -4)).unflatten(0, pixels.shape[:-3])


def environment() -> GymWrapper:
    name = "crosstraj.envs.minigrid_pixels:crosstraj/MiniGrid-DoorKey-5x5-v0"
    return GymWrapper(ImgObsWrapper(gymnasium.make(name)), categorical_action_encoding=True)


def main(frames: int = 50_000, rows: int = 16, steps: int = 128, logs: str = "logs") -> CTRLLoss:
    torch.manual_seed(0)
    envs, encoder = SerialEnv(rows, environment), Encoder()
    envs.set_seed(0)
    read = TensorDictModule(encoder, in_keys=["pixels"], out_keys=["hidden"])
    logits = TensorDictModule(nn.Linear(512, 7), in_keys=["hidden"], out_keys=["logits"])
    value = TensorDictSequential(read, ValueOperator(nn.Linear(512, 1), in_keys=["hidden"]))
    policy = ProbabilisticActor(
        TensorDictSequential(read, logits), in_keys=["logits"], return_log_prob=True,
        distribution_class=torch.distributions.Categorical,
    )  # fmt: skip
    value(policy(envs.reset()))  # makes the lazy layer
    ppo = ClipPPOLoss(policy, value, entropy_coeff=0.01, critic_coeff=0.5)
    gae = GAE(gamma=0.99, lmbda=0.95, value_network=value, deactivate_vmap=True)
    ctrl = CTRLLoss(encoder, ct.CTRLConfig(clusters=32), features=512, actions=7)
    optimizer = torch.optim.Adam([*ppo.parameters(), *ctrl.own_parameters()], lr=5e-4, eps=1e-5)
    ctrl.follow(optimizer)
    logger, seen = CSVLogger("torchrl_ppo_ctrl", log_dir=logs), 0
    sizes = {"frames_per_batch": rows * steps, "total_frames": frames}
    collector = Collector(envs, policy, **sizes, auto_register_policy_transforms=False)
    for data in collector:
        with torch.no_grad():
            gae(data)
        for share in torch.randperm(rows).chunk(4):  # whole rows, for both losses
            losses = ppo(data[share].reshape(-1)).update(ctrl(data[share]))
            optimizer.zero_grad()
            sum(loss for name, loss in losses.items() if name.startswith("loss_")).backward()
            nn.utils.clip_grad_norm_([*ppo.parameters(), *ctrl.own_parameters()], 0.5)
            optimizer.step()
        seen += data.numel()
        for name, figure in losses.items():
            logger.log_scalar(name, figure.item(), step=seen)
    collector.shutdown()
    return ctrl


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))  # how many frames
