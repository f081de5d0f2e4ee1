"""Linear probes against closed forms, slow loops and scikit-learn; the command on tiny runs."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from crosstraj.analysis.probes import ranking
from crosstraj.analysis.probes.agents import Judged, features_of
from crosstraj.analysis.probes.intervals import auc_course, estimate, resamples, share_course
from crosstraj.analysis.probes.judge import Exam, Measured, Pair, compare, measure, prepare
from crosstraj.analysis.probes.linear import choose, cross_entropy, divergence, fit, hold_out
from crosstraj.analysis.probes.ranking import Choices
from crosstraj.analysis.probes.record import Recording, draw, opinion, record, reward_soon
from crosstraj.cli.main import main
from crosstraj.config.presets import preset
from crosstraj.envs import make_envs
from crosstraj.errors import BadInput
from crosstraj.learning.evaluation import Pool
from crosstraj.learning.load import untrained
from tests import conftest
from tests.learning.scripted import Scripted

ACTIONS = 5


def play_of(log_probs: np.ndarray, level: np.ndarray, soon: np.ndarray) -> Recording:
    return Recording(np.zeros((len(level), 1, 1, 1), np.uint8), log_probs, level, soon)


def expert(count: int, seed: int) -> tuple[np.ndarray, Recording]:
    """Logits [count, ACTIONS], and play by them; a reward is soon where the first logit is high."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(count, ACTIONS))
    level = rng.integers(seed * 100, seed * 100 + 30, count)
    return logits, play_of(log_softmax(logits, axis=1), level, logits[:, 0] > 0.5)


def exam() -> tuple[tuple[np.ndarray, np.ndarray], Exam]:
    (ours, seen), (theirs, unseen) = expert(1500, 1), expert(1200, 2)
    return (ours, theirs), prepare(seen, unseen, np.random.default_rng(0))


# --- The probe


def test_features_that_are_the_experts_logits_explain_everything():
    features, play = exam()
    mixing = np.random.default_rng(5).normal(size=(ACTIONS, 12))  # any invertible view of them
    found = measure(tuple(logits @ mixing + 3 for logits in features), play)
    assert found.unseen.share[0] == pytest.approx(1, abs=0.005)
    assert found.unseen.auc[0] == pytest.approx(1, abs=0.002)
    assert found.held == pytest.approx((1, 1), abs=0.005)


def test_constant_features_explain_exactly_nothing():
    _, play = exam()
    constant = tuple(np.full((len(part.level), 3), 0.1) for part in (play.seen, play.unseen))
    found = measure(constant, play)
    # The fitted mean is the prior itself, on whatever frames; every pair of scores is a tie.
    np.testing.assert_allclose(found.unseen.share, 0, atol=1e-6)
    np.testing.assert_allclose(found.unseen.auc, 0.5, atol=1e-12)
    assert found.held == pytest.approx((0, 0.5), abs=1e-6)


def test_features_that_only_help_on_seen_levels_may_be_worse_than_nothing():
    (ours, theirs), play = exam()
    found = measure((ours, -theirs), play)
    assert found.unseen.share[0] < -0.5
    assert found.unseen.auc[0] < 0.01
    assert found.held[0] > 0.99


def test_half_of_what_there_is_to_explain_is_a_share_of_a_half():
    # On one half of the frames the probe is the expert, on the other it knows only the mean.
    target = np.log(np.array([[0.9, 0.1], [0.1, 0.9], [0.9, 0.1], [0.1, 0.9]]))
    probe = target.copy()
    probe[2:] = np.log(0.5)
    unknown, left = divergence(target, np.log([0.5, 0.5])), divergence(target, probe)
    nats = 0.9 * np.log(0.9 / 0.5) + 0.1 * np.log(0.1 / 0.5)
    np.testing.assert_allclose(unknown, nats)
    np.testing.assert_allclose(left, [0, 0, nats, nats], atol=1e-15)
    level = np.array([0, 1, 0, 1])
    assert share_course(np.ones((1, 2)), unknown - left, unknown, level)[0] == pytest.approx(0.5)


def test_hard_targets_give_the_solution_of_scikit_learn():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(400, 6)) * [1, 10, 0.1, 1, 1, 1] + 4
    label = (features[:, 0] + rng.normal(size=400) > 4.3).astype(int)
    ridge = 0.02
    ours = fit(features, np.eye(2)[label], ridge)
    scaled = (features - features.mean(0)) / features.std(0)
    # Two softmax columns w and -w cost 2 |w|^2 / 2; one logistic column of 2w, |2w|^2 / 2.
    theirs = LogisticRegression(C=2 / (ridge * len(label)), tol=1e-10, max_iter=10_000)
    theirs.fit(scaled, label)
    np.testing.assert_allclose(
        ours.log_probs(features), theirs.predict_log_proba(scaled), atol=2e-4
    )


def test_soft_targets_weigh_as_frames_repeated_in_their_proportions():
    rng = np.random.default_rng(1)
    features = rng.normal(size=(60, 3))
    counts = rng.integers(0, 4, (60, 4)) + np.array([1, 0, 0, 0])
    counts[:, 3] += 4 - counts.sum(1).clip(max=4)
    counts = np.where(counts.sum(1, keepdims=True) == 4, counts, [1, 1, 1, 1])  # four each
    soft = fit(features, counts / 4, 0.05)
    hard = fit(
        np.repeat(features, 4, 0),
        np.eye(4)[np.repeat(np.tile(np.arange(4), 60), counts.ravel())],
        0.05,
    )
    np.testing.assert_allclose(soft.weight, hard.weight, atol=1e-4)


def test_the_statistics_that_standardise_are_those_of_the_fitted_frames():
    rng = np.random.default_rng(2)
    features = np.concatenate([rng.normal(5, 2, (300, 2)), np.full((300, 1), 0.1)], 1)
    probe = fit(features, softmax(features, axis=1), 0.1)
    np.testing.assert_allclose(probe.centre, features.mean(0))
    np.testing.assert_allclose(probe.spread, [*features.std(0)[:2], 1])
    shifted = probe.log_probs(features + np.array([100, 0, 0]))
    assert np.abs(shifted - probe.log_probs(features)).max() > 1  # not standardised anew


def test_the_ridge_is_the_best_on_held_out_frames_and_its_probe_never_saw_them():
    rng = np.random.default_rng(3)
    features, noise = rng.normal(size=(200, 40)), rng.normal(size=(200, 3))
    target = softmax(features[:, :3] + 2 * noise, axis=1)
    held = np.arange(200) % 4 == 0
    ridge, probe = choose(features, target, held)
    again = fit(features[~held], target[~held], ridge)
    np.testing.assert_allclose(probe.log_probs(features), again.log_probs(features), atol=1e-3)
    best = cross_entropy(target[held], probe.log_probs(features[held]))
    for other in (ridge / 10, 10 * ridge):
        worse = fit(features[~held], target[~held], other)
        assert cross_entropy(target[held], worse.log_probs(features[held])) > best


def test_the_held_out_split_shares_no_level_and_is_a_quarter_of_them():
    level = np.random.default_rng(0).integers(50, 90, 3000)
    held = hold_out(level, np.random.default_rng(1))
    ours, theirs = set(level[held]), set(level[~held])
    assert not ours & theirs
    assert (len(ours), len(theirs)) == (10, 30)
    other = hold_out(level, np.random.default_rng(2))
    assert set(level[other]) != ours
    assert hold_out(np.array([4, 4, 9]), np.random.default_rng(0)).sum() in (1, 2)


def test_one_seen_level_is_refused():
    _, play = expert(50, 1)
    with pytest.raises(BadInput, match="played 1 seen level: at least 2 are needed"):
        prepare(play._replace(level=np.full(50, 7)), play, np.random.default_rng(0))


def test_without_any_reward_to_learn_from_there_is_no_auc():
    features, play = exam()
    never = play._replace(seen=play.seen._replace(soon=np.zeros(1500, bool)))
    found = measure(features, never)
    assert np.isnan(found.unseen.auc).all()
    assert found.unseen.share[0] > 0.99


# --- Intervals over levels


def frames_of_levels() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    level = np.concatenate([np.arange(12), rng.integers(0, 12, 200)])
    score = rng.integers(0, 9, len(level)) + 0.3 * level  # with ties
    return level, score, rng.random(len(level)) < 0.4, rng.random(len(level))


def test_every_resample_is_the_statistic_of_levels_drawn_with_replacement():
    level, score, positive, part = frames_of_levels()
    weights = resamples(12)
    assert (weights.sum(1) == 12).all()
    shares = share_course(weights, part, part + 1, level)
    areas = auc_course(weights, score, positive, level)
    for row in (0, 1, 2, 777):
        again = np.repeat(np.arange(len(level)), weights[row].astype(int)[level])
        assert shares[row] == pytest.approx(part[again].sum() / (part[again] + 1).sum())
        assert areas[row] == pytest.approx(roc_auc_score(positive[again], score[again]))


def test_the_interval_of_a_mean_over_levels_is_that_of_its_standard_error():
    values = np.random.default_rng(6).normal(size=400)
    course = share_course(resamples(400), values, np.ones(400), np.arange(400))
    found = estimate(course, 400)
    reach = 1.96 * values.std() / np.sqrt(400)
    assert found.value == pytest.approx(values.mean())
    assert found.low == pytest.approx(values.mean() - reach, abs=0.1 * reach)
    assert found.high == pytest.approx(values.mean() + reach, abs=0.1 * reach)


def test_a_frame_more_of_the_same_level_makes_no_interval_narrower():
    level, _, _, part = frames_of_levels()
    often = np.repeat(np.arange(len(level)), 9)
    weights = resamples(12)
    once = estimate(share_course(weights, part, part + 1, level), 12)
    many = estimate(share_course(weights, part[often], part[often] + 1, level[often]), 12)
    assert many == pytest.approx(once)


def test_differences_are_paired_level_by_level():
    level, _, _, part = frames_of_levels()
    weights, ones = resamples(12), np.ones(len(level))
    low, high = (share_course(weights, p, ones, level) for p in (part, part + 0.25))
    pairs = [Measured(Pair(c, c), (0.0, 0.0), (1.0, 1.0)) for c in (low, high, low)]
    untrained, first, other = compare([("a", 0), ("b", 1), ("c", 2)], pairs, 12)
    # Levels differ, but each by the same quarter: the difference is known exactly.
    assert first.share_over_untrained == pytest.approx((0.25, 0.25, 0.25))
    assert first.share.high - first.share.low > 0.02
    assert untrained.share_over_untrained == (0, 0, 0)
    assert other.share_over_first == pytest.approx((-0.25, -0.25, -0.25))
    assert other.auc_over_first == other.share_over_first


def test_one_level_has_a_value_and_no_interval():
    found = estimate(share_course(resamples(1), np.ones(3), np.full(3, 4.0), np.zeros(3, int)), 1)
    assert found.value == 0.25
    assert np.isnan([found.low, found.high]).all()


def test_resamples_without_a_reward_are_left_out_and_no_reward_at_all_is_nan():
    positive = np.array([True, False, False, False])
    level = np.array([0, 0, 1, 2])
    course = auc_course(resamples(3), np.array([1.0, 0, 2, 0]), positive, level)
    assert course[0] == pytest.approx(2 / 3)
    assert np.isnan(course).any()
    assert 0 <= estimate(course, 3).low <= estimate(course, 3).high <= 1
    nothing = auc_course(resamples(3), np.zeros(4), np.zeros(4, bool), level)
    assert np.isnan(estimate(nothing, 3)).all()


# --- What the expert plays


def test_a_reward_soon_is_one_of_the_same_episode_within_the_horizon():
    reward = np.array([0, 0, 0, 1, 0, 0, -5, 0, 2, 0, 0], float)[:, None]
    done = np.array([0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], bool)[:, None]
    # Windows of three: t = 1 ... 3 see the reward of step 3, t = 8 its own; t = 6 and 7 may not
    # look beyond the end at 7; the last two are cut off.
    expected = [0, 1, 1, 1, 0, 0, 0, 0, 1]
    assert reward_soon(reward, done, 3)[:, 0].astype(int).tolist() == expected


def test_rewards_soon_are_those_of_a_slow_loop():
    rng = np.random.default_rng(0)
    reward = np.where(rng.random((80, 3)) < 0.08, rng.normal(size=(80, 3)), 0)
    done = rng.random((80, 3)) < 0.07
    found = reward_soon(reward, done, 10)
    assert found.shape == (71, 3)
    for t, n in np.ndindex(found.shape):
        expected = False
        for ahead in range(10):
            expected |= bool(reward[t + ahead, n] > 0)
            if done[t + ahead, n]:
                break
        assert found[t, n] == expected


class Paid(Scripted):
    """Steps 4, 17 and 30 of an episode pay, and so does its last one if the episode is odd."""

    def step(self, actions):
        steps, episode = self.steps.copy(), self.episode.copy()
        obs, _, done, truncated, info = super().step(actions)
        reward = np.isin(steps, (4, 17, 30)) | (done & (episode % 2 == 1))
        return obs, reward.astype(float), done, truncated, info


class Certain:
    """An agent that is sure of the action (row + step) mod 4, as the frame shows it."""

    encoder = None

    def read(self, encode, frames):
        return frames.float()

    def decide(self, frames, features, context):
        assert context.shape == (len(frames), 0)
        wanted = (features[:, 0, 0, 0].long() + features[:, 0, 2, 0].long()) % 4
        return torch.eye(4)[wanted].mul(20).log_softmax(-1), None


def recorded(count: int, every: int, script: list[list[int]], **options: float) -> Recording:
    return record(
        Pool(Paid(script), 0),
        Certain(),
        count,
        every=every,
        random=options.get("random", 0.0),
        rng=torch.Generator().manual_seed(0),
        device=torch.device("cpu"),
    )


def test_a_recording_has_every_so_many_th_frame_with_its_own_level_opinion_and_label():
    script = [[13, 40], [7, 8, 9]]
    found = recorded(20, 3, script)
    assert len(found.level) == 40
    seen = [tuple(frame[0, :3, 0].tolist()) for frame in found.frames]
    # Time before environment: step 0 of both rows, then step 3 of both, ...
    assert seen[:5] == [(0, 0, 0), (1, 0, 0), (0, 0, 3), (1, 0, 3), (0, 0, 6)]
    assert seen[5] == (1, 0, 6)
    assert seen[7] == (1, 1, 2)  # the ninth step: the first episode of row 1 had seven
    for (row, episode, step), level, soon, log_probs in zip(
        seen, found.level, found.soon, found.log_probs, strict=True
    ):
        length = script[row][episode % len(script[row])]
        paid = [s in (4, 17, 30) or (episode % 2 and s == length - 1) for s in range(length)]
        assert level == 100 * row + episode
        assert soon == any(paid[step : step + 10])
        assert log_probs.argmax() == (row + step) % 4
        assert np.exp(log_probs).sum() == pytest.approx(1, abs=1e-12)


def test_where_there_are_no_levels_each_episode_counts_as_one(monkeypatch):
    monkeypatch.setattr(Paid, "levels", lambda self: np.full(self.num_envs, -1))
    found = recorded(20, 3, [[13, 40], [7, 8, 9]])
    seen = [tuple(frame[0, :2, 0].tolist()) for frame in found.frames]
    assert len(set(found.level)) == len(set(seen)) == len(set(zip(seen, found.level, strict=True)))
    assert (found.level < 0).all()


def test_a_share_of_the_actions_is_random_and_the_others_are_the_experts():
    sure = torch.eye(4)[torch.full((20_000,), 2)].mul(50).log_softmax(-1)
    for random, other in ((0.0, 0.0), (0.2, 0.15), (1.0, 0.75)):
        action = draw(sure, random, torch.Generator().manual_seed(1))
        assert (action != 2).float().mean().item() == pytest.approx(other, abs=0.01)
    assert set(draw(sure, 1.0, torch.Generator().manual_seed(1)).tolist()) == {0, 1, 2, 3}


# --- Encoders


@pytest.mark.parametrize(
    ("method", "kind", "split_at"),
    [("ppo", "impala", "fc"), ("ppo", "laptop", "conv"), ("daac", "laptop", "fc")],
)
def test_features_are_what_the_policy_head_of_any_agent_reads(method, kind, split_at):
    config = replace(
        preset(method, "default"),
        env="starpilot",
        encoder=kind,
        encoder_grad="none",  # the only one that goes with every cut
        split_at=split_at,
    )
    envs = make_envs("starpilot", 4, levels="train", procgen=config.procgen, seed=0)
    agent = untrained(config).agent
    frames, _ = envs.reset()
    features = features_of(Judged("any", untrained(config)), frames)
    read = torch.from_numpy(features).float()
    policy = agent.policy(read).log_softmax(-1)
    torch.testing.assert_close(policy, opinion(agent, torch.from_numpy(frames)))


def test_an_expert_with_skills_is_refused():
    config = replace(preset("diayn", "default"), env="starpilot", encoder="laptop")
    choices = Choices(100, 4, 0.2, (), None)
    skilled = Judged("skilled", untrained(config))
    with pytest.raises(BadInput, match="skilled acts by skills"):
        ranking.play(skilled, SimpleNamespace(), "seen", choices)


# --- The command


SMALL = ("--frames", "200")


def test_probe_writes_the_same_table_and_figure_each_time(
    trained: conftest.Trained, clustered: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    step = sorted(int(path.name[5:]) for path in (clustered / "snapshots").iterdir())[0]
    for out in ("a", "b"):
        command = ["probe", str(clustered), "--expert", str(trained.directory), *SMALL]
        command += ["--out", str(tmp_path / out), "--step", str(step), "768"]
        assert main(command) == 0
    for name in ("probe.md", "probe.json", "probe.png"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    found = json.loads((tmp_path / "a/probe.json").read_text())
    names = [(one["name"], one["frames"]) for one in found["encoders"]]
    run = clustered.name
    assert names == [("untrained", 0), (run, step), (run, 768), ("the expert's own", 512)]
    assert found["facts"]["unseen_frames"] >= 200
    for one in found["encoders"]:
        assert one["share"]["low"] <= one["share"]["value"] <= one["share"]["high"]
        gap = one["share"]["value"] - found["encoders"][0]["share"]["value"]
        assert one["share_over_untrained"]["value"] == pytest.approx(gap)
    assert (tmp_path / "a/probe.png").read_bytes()[:4] == b"\x89PNG"
    out = capfd.readouterr().out
    assert "over first run" in out
    assert "hardly depend on the frame" in " ".join(out.split())
    assert not (clustered / "probe").exists()


def test_a_judged_run_with_the_experts_seed_is_named(
    trained: conftest.Trained, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(trained.directory, tmp_path / "run"))
    assert main(["probe", str(run), "--expert", str(trained.directory), *SMALL]) == 0
    assert "run has the expert's seed, 5" in " ".join(capfd.readouterr().out.split())
    found = json.loads((run / "probe/probe.json").read_text())
    _, judged, own = found["encoders"]
    assert judged["share"] == own["share"]  # the very same weights


def changed(run: Path, place: Path, **values: object) -> Path:
    """A copy of a run whose configuration says otherwise."""
    copy = Path(shutil.copytree(run, place))
    stored = json.loads((copy / "config.json").read_text())
    stored["config"] |= values
    (copy / "config.json").write_text(json.dumps(stored))
    return copy


def test_probe_refuses_in_one_sentence(
    trained: conftest.Trained, clustered: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    expert, run = str(trained.directory), str(clustered)
    other = str(changed(clustered, tmp_path / "other", env="bigfish"))
    stacked = str(changed(clustered, tmp_path / "stacked", frame_stack=2))
    for arguments, said in (
        ([other], f"{other} has env=bigfish and the expert {expert} has starpilot"),
        ([stacked], f"{stacked} has frame_stack=2 and the expert {expert} has 1"),
        ([run, "--step", "7"], f"{run} has no snapshot or checkpoint at 7 frames"),
        ([run, "--expert-step", "7"], f"{expert} has no snapshot or checkpoint at 7 frames"),
        ([run, "--frames", "9"], "--frames=9: must be at least 100"),
        ([run, "--every", "0"], "--every=0: must be at least 1"),
        ([run, "--random", "1.5"], "--random=1.5: must be at least 0 and at most 1"),
        ([run, run], "several runs need --out DIR"),
        ([], "no run is given"),
        ([str(tmp_path)], f"{tmp_path} is not a run directory"),
    ):
        capfd.readouterr()
        assert main(["probe", *SMALL, "--expert", expert, *arguments]) == 2
        error = capfd.readouterr().err
        assert said in error
        assert error.splitlines()[-1].startswith("crosstraj: ")


def test_the_help_of_probe_imports_no_torch() -> None:
    words = "import sys; from crosstraj.cli.main import main\ntry: main(['probe', '--help'])\n"
    words += "except SystemExit: sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", words], capture_output=True).returncode == 0
