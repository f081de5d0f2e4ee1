"""What somebody with the losses alone runs: trains them on random frames, and misses an extra."""

import json
import sys

import torch

before = set(sys.modules)

import crosstraj as ct  # noqa: E402  # what it imports beyond torch is counted
from crosstraj.errors import EXTRAS  # noqa: E402

names = (ct.CTRL, ct.Situations, ct.FrameEncoder, ct.Trajectories)
imported = {name.partition(".")[0] for name in set(sys.modules) - before}
g = torch.Generator().manual_seed(0)
play = ct.Trajectories.of(
    torch.randint(256, (64, 8, 16, 16, 3), generator=g, dtype=torch.uint8),
    torch.randint(5, (64, 8), generator=g),
    torch.rand(64, 8, generator=g) < 0.05,
    time_first=True,
)
network = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 4, stride=4),
    torch.nn.ReLU(),
    torch.nn.Flatten(),
    torch.nn.Linear(128, 64),
)
encode = ct.FrameEncoder(network)
losses = [
    ct.CTRL(ct.CTRLConfig(clusters=16), features=64, actions=5),
    ct.Situations(ct.SituationsConfig(clusters=16), features=64, actions=5),
]
told = {}
for loss in losses:
    optimiser = torch.optim.Adam([*encode.parameters(), *loss.parameters()], lr=1e-3, eps=1e-5)
    updates = [loss.learn(encode, play, optimiser, minibatches=2) for _ in range(15)]
    told[type(loss).__name__] = [update["objective_loss"] for update in updates]
try:
    ct.preset("ctrl")
except ct.BadInput as error:
    told["refusal"] = str(error)
told["imported"] = sorted(imported)
told["extras"] = sorted(EXTRAS.keys() & sys.modules.keys())
told["home"] = ct.__file__
told["numpy"] = sys.modules["numpy"].__version__
print(json.dumps(told))
