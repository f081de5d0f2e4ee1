"""Which kernels a run takes, what it says, and that resuming keeps to them."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from crosstraj.cli.main import main
from crosstraj.config.groups import MachineConfig
from crosstraj.config.presets import plain, with_gru
from crosstraj.config.stored import completed, from_dict, to_dict
from crosstraj.config.values import Config
from crosstraj.data.rollout import Remembered
from crosstraj.errors import BadInput
from crosstraj.learning import kernels
from crosstraj.learning.kernels import settled
from crosstraj.learning.load import load, read_config
from crosstraj.learning.networks import encoders_of, make_networks
from crosstraj.nn import compiler
from crosstraj.nn.compiler import has_dot_products
from crosstraj.nn.encoders import Impala
from crosstraj.runs import checkpoint
from tests.conftest import TINY
from tests.helpers import rng

FRAME = (64, 64, 3)
there_is_one = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler: cc is missing")


@pytest.fixture(autouse=True)
def forgetful() -> Iterator[None]:
    compiler.forget()
    yield
    compiler.forget()


def config(encoder: str = "laptop", **machine: Any) -> Config:
    return replace(plain("ppo"), encoder=encoder, machine=MachineConfig(**machine))


def chosen(image: tuple[int, int, int] = FRAME, begun: str | None = None, **values: Any) -> str:
    """The kernels, a colon, and why."""
    found, sentence = settled(config(**values), image, begun)
    return f"{found.machine.kernels}: {sentence}"


@there_is_one
def test_auto_takes_our_kernels_where_they_fit_and_says_so():
    assert re.match(r"native: kernels: our own convolutions in C \(compiled once", chosen())
    assert ("in C in bfloat16" in chosen(precision="bf16")) == has_dot_products()
    assert re.match("torch: .*84 x 84 do not fit", chosen(image=(84, 84, 4), encoder="impala"))
    assert re.match("torch: .*no other kernels for encoder=lattice", chosen(encoder="lattice"))
    assert re.match("torch: .*84 x 84 do not fit", chosen(image=(84, 84, 4), precision="bf16"))
    assert chosen(kernels="torch").startswith("torch: kernels: torch's convolutions (asked for)")


@there_is_one
@pytest.mark.parametrize("method", ["ppo", "daac"])
@torch.no_grad()
def test_a_memory_stands_on_our_kernels_and_believes_what_it_would_on_torchs(method):
    """DAAC has two encoders, each below a memory of its own."""
    frames = torch.randint(256, (6, *FRAME), generator=rng(), dtype=torch.uint8)
    believed = {}
    for kind in ("native", "torch"):
        made = with_gru(replace(plain(method), encoder="laptop"))
        made = replace(made, memory_width=8, machine=MachineConfig(kernels=kind, threads=1))
        agent = make_networks(made, FRAME, 5, rng(1))[0].agent
        encoders = encoders_of(agent)
        assert len(encoders) == (2 if method == "daac" else 1)
        assert [isinstance(e, Impala) for e in encoders] == [True] * len(encoders)
        assert [e.native is not None for e in encoders] == [kind == "native"] * len(encoders)
        assert agent.encoder.below is encoders[0]  # which the GRU reads
        believed[kind] = agent.act(Remembered(agent.memory, len(frames)).before(frames)).memory
    torch.testing.assert_close(believed["native"], believed["torch"], rtol=1e-4, atol=1e-5)
    assert believed["torch"].shape == (6, 8 * len(encoders))
    assert float(believed["torch"].std(dim=0).min()) > 1e-3  # frames are told apart


@there_is_one
def test_auto_keeps_to_what_the_run_began_with():
    assert re.match("torch: .*as when this run began", chosen(begun="torch"))
    assert chosen(begun="native").startswith("native: ")
    assert chosen(begun="torch", kernels="native").startswith(
        "native: "
    )  # asked for: refused later


def test_without_a_compiler_auto_says_what_would_help_and_native_is_refused(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    assert re.match("torch: .*there is no C compiler; it would be faster with one", chosen())
    assert chosen(begun="native").startswith("torch: ")  # which the checkpoint's facts refuse
    with pytest.raises(BadInput, match=r"kernels=native: there is no C compiler.*use machine"):
        chosen(kernels="native")
    monkeypatch.setenv("CC", "false")
    assert re.match("torch: .*the C compiler does not work: .*false failed", chosen())


def test_bf16_on_a_processor_without_it_is_said_to_be_slow(monkeypatch):
    monkeypatch.setattr(kernels, "has_bf16", lambda: False)
    assert chosen(precision="bf16").endswith("precision fp32 is faster")
    assert "fp32" not in chosen()
    monkeypatch.setattr(kernels, "has_bf16", lambda: True)
    assert "fp32" not in chosen(precision="bf16")


def test_what_has_no_kernels_of_ours_cannot_ask_for_them():
    for values in ({"device": "cuda"}, {"compile": True}):
        with pytest.raises(BadInput, match="is for the CPU, and not compiled"):
            MachineConfig(kernels="native", **values)
    with pytest.raises(BadInput, match="is for encoder=impala"):
        config(encoder="lattice", kernels="native")


@there_is_one
def test_a_run_records_its_kernels_and_is_not_resumed_on_others(tmp_path, monkeypatch, capfd):
    command = ["train", "--method", "ppo", *TINY, "--saving.runs", str(tmp_path)]
    command += ["--machine.threads", "1", "--frames"]
    assert main([*command, "256"]) == 0
    assert "kernels: our own convolutions in C" in capfd.readouterr().err
    (run,) = tmp_path.iterdir()
    assert checkpoint.newest_facts(run / "checkpoints")["kernels"] == "native"
    compiler.forget()
    with monkeypatch.context() as patch:
        patch.setenv("CC", "no-such-compiler")
        assert main([*command, "512"]) == 2
        said = capfd.readouterr().err
        assert "there is no C compiler" in said
        assert "kernels" in said.split("was written elsewhere")[1]
        assert load(run).frames == 256  # to look at it, any kernels will do
        assert main([*command, "512", "--allow-inexact"]) == 0
    assert checkpoint.newest_facts(run / "checkpoints")["kernels"] == "torch"
    compiler.forget()
    assert main([*command, "768"]) == 0  # there is a compiler again: auto keeps to torch's
    assert "as when this run began" in capfd.readouterr().err


def test_a_run_that_asked_for_our_kernels_is_loaded_without_a_compiler(trained, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    machine = replace(read_config(trained.directory).machine, kernels="native")
    assert load(trained.directory, machine=machine).configuration.machine.kernels == "auto"


def test_a_run_that_was_written_with_the_former_switch_can_be_read(trained, tmp_path: Path):
    values = to_dict(read_config(trained.directory))
    del values["machine"]["precision"]
    for switch, precision in ((True, "bf16"), (False, "fp32")):
        values["machine"] |= {"bfloat16": switch, "kernels": "torch"}
        assert from_dict(completed(values, 1)).machine.precision == precision
