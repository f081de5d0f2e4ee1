"""PPO with CTRL in one file, in the style of CleanRL: one joint step on the sum of both losses.

What to copy: every line that ends with `# CTRL`. They are all that differs from plain PPO: without
them this file is plain PPO, and with --ctrl-weight 0 it gives plain PPO's numbers. To see it run on
Procgen, its figures in TensorBoard under `ctrl/`:

    pip install '.[procgen,recipes]' && python examples/cleanrl_ppo_ctrl.py --clusters 64
"""

import argparse
from dataclasses import dataclass, fields

import gymnasium
import torch
from torch import Tensor, nn
from torch.distributions import Categorical
from torch.utils.tensorboard import SummaryWriter

import crosstraj as ct  # CTRL


@dataclass
class Args:
    env_id: str = "crosstraj.envs:crosstraj/Procgen-bigfish-v0"  # frames [H, W, C], uint8
    log_dir: str = "runs/cleanrl_ppo_ctrl"
    seed: int = 1
    total_timesteps: int = 200_000
    num_envs: int = 16
    num_steps: int = 256
    num_minibatches: int = 8
    update_epochs: int = 1
    learning_rate: float = 5e-4
    gamma: float = 0.999
    gae_lambda: float = 0.95
    clip_coef: float = 0.2
    ent_coef: float = 0.01
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5
    ctrl_weight: float = 1.0  # CTRL
    clusters: int = 32  # CTRL


class Agent(nn.Module):
    def __init__(self, actions: int) -> None:
        super().__init__()
        convolutions = [nn.Conv2d(3, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU()]
        convolutions += [nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten()]
        self.network = nn.Sequential(*convolutions, nn.Linear(1024, 512), nn.ReLU())
        self.actor, self.critic = nn.Linear(512, actions), nn.Linear(512, 1)
        with torch.no_grad():
            self.actor.weight.mul_(0.01)

    def forward(self, obs: Tensor) -> tuple[Categorical, Tensor]:
        features = self.network(obs.permute(0, 3, 1, 2) / 255)
        return Categorical(logits=self.actor(features)), self.critic(features).squeeze(1)


def advantages_of(rewards: Tensor, values: Tensor, dones: Tensor, args: Args) -> Tensor:
    """GAE, [S, N]; values and dones have S + 1 rows, and dones[t] says that step t begins anew."""
    advantages, last = torch.zeros_like(rewards), torch.zeros_like(rewards[0])
    for t in reversed(range(len(rewards))):
        goes_on = 1 - dones[t + 1]
        error = rewards[t] + args.gamma * values[t + 1] * goes_on - values[t]
        advantages[t] = last = error + args.gamma * args.gae_lambda * goes_on * last
    return advantages


def ppo_loss(agent: Agent, batch: list[Tensor], args: Args) -> tuple[Tensor, dict[str, Tensor]]:
    obs, action, old_logprob, advantage, target = batch
    policy, value = agent(obs)
    ratio = (policy.log_prob(action) - old_logprob).exp()
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    clipped = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
    policy_loss = -torch.min(ratio * advantage, clipped * advantage).mean()
    value_loss, entropy = 0.5 * (value - target).square().mean(), policy.entropy().mean()
    loss = policy_loss + args.vf_coef * value_loss - args.ent_coef * entropy
    figures = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}
    return loss, {f"losses/{name}": figure.detach() for name, figure in figures.items()}


def main(args: Args) -> Agent:
    torch.manual_seed(args.seed)
    writer = SummaryWriter(args.log_dir)
    envs = gymnasium.make_vec(args.env_id, num_envs=args.num_envs, seed=args.seed)
    agent = Agent(actions=int(envs.single_action_space.n))
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
    sizes = {"features": 512, "actions": agent.actor.out_features}  # CTRL
    ctrl = ct.CTRL(ct.CTRLConfig(clusters=args.clusters), **sizes, seed=args.seed)  # CTRL
    encode = ct.FrameEncoder(agent.network)  # CTRL
    optimizer.add_param_group({"params": [*ctrl.parameters()]})  # CTRL

    shape = (args.num_steps, args.num_envs)
    obs = torch.zeros(*shape, *envs.single_observation_space.shape, dtype=torch.uint8)
    actions, logprobs = torch.zeros(shape, dtype=torch.int64), torch.zeros(shape)
    levels = torch.zeros(shape, dtype=torch.int64)  # CTRL
    rewards, values, dones = torch.zeros(3, shape[0] + 1, shape[1])  # one row for the step after
    next_obs, info, score = *envs.reset(), torch.zeros(args.num_envs)
    for frames in range(0, args.total_timesteps, obs[..., 0, 0, 0].numel()):
        with torch.no_grad():
            for t in range(args.num_steps):
                obs[t] = torch.as_tensor(next_obs)
                levels[t] = torch.as_tensor(info["level_seed"])  # CTRL
                policy, values[t] = agent(obs[t])
                actions[t] = policy.sample()
                logprobs[t] = policy.log_prob(actions[t])
                next_obs, reward, ended, cut, info = envs.step(actions[t].numpy())
                rewards[t], dones[t + 1] = torch.as_tensor(reward), torch.as_tensor(ended | cut)
                score += rewards[t]
                for env in dones[t + 1].nonzero().flatten():
                    writer.add_scalar("charts/episodic_return", score[env], frames + t * len(score))
                score *= 1 - dones[t + 1]
            values[-1] = agent(torch.as_tensor(next_obs))[1]
        advantages = advantages_of(rewards[:-1], values, dones, args)
        kept = [obs, actions, logprobs, advantages, advantages + values[:-1]]
        where = {"starts": dones, "levels": levels}  # CTRL
        play = ct.Trajectories.of(obs, actions, **where, time_first=True)  # CTRL
        batches = ctrl.minibatches(play, args.num_minibatches, epochs=args.update_epochs)  # CTRL
        figures: dict[str, Tensor] = {}  # the last of each
        for _ in range(args.update_epochs):
            for share in torch.randperm(rewards[:-1].numel()).chunk(args.num_minibatches):
                loss, parts = ppo_loss(agent, [e.flatten(0, 1)[share] for e in kept], args)
                figures |= parts
                batch = next(batches, None)  # none is left where episodes are short  # CTRL
                if batch is not None:  # CTRL
                    own, evidence = ctrl(encode, batch)  # CTRL
                    loss = loss + args.ctrl_weight * own  # CTRL
                    figures |= {f"ctrl/{n}": seen.detach() for n, seen in evidence.items()}  # CTRL
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
                nn.utils.clip_grad_norm_(ctrl.parameters(), args.max_grad_norm)  # CTRL
                optimizer.step()
                ctrl.after_step()  # CTRL
        figures |= {f"ctrl/{name}": seen for name, seen in ctrl.figures().items()}  # CTRL
        for name, figure in figures.items():
            writer.add_scalar(name, float(figure), frames)
    writer.close()
    envs.close()
    return agent


if __name__ == "__main__":
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    for field in fields(Args):
        flag = f"--{field.name.replace('_', '-')}"
        parser.add_argument(flag, type=type(field.default), default=field.default)
    main(Args(**vars(parser.parse_args())))
