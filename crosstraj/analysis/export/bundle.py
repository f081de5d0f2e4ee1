"""`crosstraj export`: an agent in a directory of its own, which is uploaded only if asked to."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from crosstraj import disk
from crosstraj.analysis.export.card import SAID, Subject, card
from crosstraj.analysis.output import Output, run_name
from crosstraj.analysis.watching import Scene, watch
from crosstraj.config.stored import FORMAT, identity, to_dict
from crosstraj.envs import shown_by
from crosstraj.errors import BadInput
from crosstraj.learning.display import stage
from crosstraj.learning.load import Trained, load, read_config, read_weights
from crosstraj.runs import agent_files, checkpoint
from crosstraj.runs.log import plain_number, read_rows
from crosstraj.runs.made_by import codes_of

CLIP, ONNX, LOG, CARD = "clip.webp", "model.onnx", "metrics.jsonl", "README.md"
SCENE = Scene(seen=2, unseen=2, steps=300, fps=15, greedy=False, seed=0, step=None, clusters=True)


class Wanted(NamedTuple):
    """What a person may choose of an export."""

    step: int | None  # of training; None: the newest checkpoint
    clip: bool
    onnx: bool
    licence: str = ""  # which the card states


def export(run: Path, out: Path, wanted: Wanted) -> Path:
    """Write the agent of a run into a directory of its own."""
    ours = agent_files.is_ours(out) or (out.is_dir() and not any(out.iterdir()))
    if out.exists() and not ours:
        raise BadInput(f"--out {out} holds something else; give a directory that is not there yet")
    trained = load(run, wanted.step)
    weights = read_weights(run, wanted.step)[0]
    flat = {f"{part}/{name}": w for part, inner in weights.items() for name, w in inner.items()}
    if not all(tensor.isfinite().all() for tensor in flat.values() if tensor.is_floating_point()):
        raise BadInput(f"the weights of {run} are not finite; give --step with a snapshot of it")
    output, config, frames = Output(out), read_config(run), trained.frames
    values = {"format": FORMAT, "identity": identity(config), "config": to_dict(config)}
    facts = facts_of(run, frames)
    files = agent_files.contents(values, flat, frames, facts)
    rows = [row for row in read_rows(run / LOG) if row.get("frames", frames + 1) <= frames]
    if rows:
        files[LOG] = b"".join(_line(row) for row in rows)
    if wanted.onnx:
        files[ONNX] = _onnx(trained)
    for name in (CLIP, ONNX, LOG):  # of other weights, if they are there
        if (out / name).exists():
            disk.remove(out / name)
    written = [output.write(name, data) for name, data in files.items()]
    if wanted.clip:
        written.append(watch(run, SCENE._replace(step=wanted.step), output, CLIP))
    names = tuple(path.name for path in written)
    judged = [row for row in rows if row.get("row") == "evaluation"]
    evaluation = judged[-1] if judged else {}
    name = run_name(out if out.name != "agent" else run)
    subject = Subject(name, config, frames, evaluation, facts, names, wanted.licence)
    output.write(CARD, card(subject).encode())
    return out


def _line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, separators=(",", ":"), default=plain_number).encode() + b"\n"


def _onnx(trained: Trained) -> bytes:
    from crosstraj.analysis.export.onnx_file import onnx_bytes

    config = trained.configuration
    image, _ = shown_by(config.env, ising=config.ising, frame_stack=config.frame_stack)
    with stage("ONNX, held against torch"):
        return onnx_bytes(trained, image)


def facts_of(run: Path, frames: int) -> dict[str, Any]:
    """What a card says of the machine and the code that trained these weights."""
    facts: dict[str, Any] = agent_files.facts_of(run) if agent_files.is_ours(run) else {}
    for place in (run / "checkpoints", run / "snapshots"):
        if (place / f"step-{frames}").is_dir():
            facts = checkpoint.facts_of(place / f"step-{frames}")
    if codes := codes_of(run):
        facts = facts | {"code": ", ".join(codes)}
    return {name: facts[name] for name in SAID if name in facts}


def push(directory: Path, repository: str) -> str:
    """Upload the files of an exported agent to the hub as `repository`, USER/NAME; its address.

    A repository that is not there yet becomes a public one. Who uploads is whoever is logged in
    there; crosstraj keeps no token.
    """
    from huggingface_hub import HfApi

    api = HfApi()
    try:
        address = api.create_repo(repository, exist_ok=True)
        files = [agent_files.MODEL, agent_files.CONFIG, CARD, LOG, CLIP, ONNX]
        api.upload_folder(repo_id=repository, folder_path=str(directory), allow_patterns=files)
    except Exception as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise BadInput(
            f"--push {repository}: the hub refused it ({first}); {directory} is whole, log in with "
            "`hf auth login` and try again"
        ) from error
    return str(address)
