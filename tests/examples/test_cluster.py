"""The files to copy for a cluster parse and hold together; the Slurm script does its part."""

import json
import os
import shlex
import signal
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

PLACE = Path("examples/cluster")
SCRIPT = PLACE / "slurm.sbatch"
WORDS = ("EXPERIMENT.toml", "--only", "two words")


def load(name: str) -> list[dict[str, Any]]:
    yaml = pytest.importorskip("yaml", reason="comes with ray")
    return list(yaml.safe_load_all((PLACE / name).read_text()))


def test_the_cluster_of_ray_up_is_what_its_launcher_takes() -> None:
    (config,) = load("ray.yaml")
    spec = find_spec("ray")
    if spec is None or spec.origin is None:
        pytest.skip("ray is not installed")
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((Path(spec.origin).parent / "autoscaler/ray-schema.json").read_text())
    jsonschema.validate(config, schema)
    kinds = config["available_node_types"]
    assert kinds[config["head_node_type"]]["resources"]["CPU"] == 0
    assert len(kinds) == 2, "the runs are on one kind of machine"
    starts = config["head_start_ray_commands"] + config["worker_start_ray_commands"]
    assert all("/.venv/bin/ray " in command for command in starts)
    assert all("RAY_AUTH_MODE=token " in starts[place] for place in (1, 3))
    assert "--autoscaling-config" in starts[1]
    assert "$RAY_HEAD_IP" in starts[3]


def test_the_job_of_kuberay_has_a_head_without_runs_that_keeps_its_shelf() -> None:
    claim, job = load("kuberay.yaml")
    assert (claim["kind"], job["kind"]) == ("PersistentVolumeClaim", "RayJob")
    cluster = job["spec"]["rayClusterSpec"]
    assert cluster["authOptions"] == {"mode": "token"}
    head, (workers,) = cluster["headGroupSpec"], cluster["workerGroupSpecs"]
    assert head["rayStartParams"]["num-cpus"] == "0"
    volumes = head["template"]["spec"]["volumes"]
    assert volumes[0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    (container,) = head["template"]["spec"]["containers"]
    mounted = container["volumeMounts"][0]["mountPath"]
    shell, _, command = shlex.split(job["spec"]["entrypoint"])
    assert shell == "bash"
    assert command.startswith(f"cd {mounted} && crosstraj experiment /crosstraj/experiments/")
    (worker,) = workers["template"]["spec"]["containers"]
    assert worker["image"] == container["image"]
    assert worker["resources"]["limits"]["cpu"] == workers["rayStartParams"]["num-cpus"]
    lock = Path("requirements-3.12.lock").read_text().splitlines()
    versions = [line for line in lock if line.startswith("ray==")]
    assert versions == [f"ray=={cluster['rayVersion']}"]


def test_the_files_name_nobodys_machine_or_account() -> None:
    for path in PLACE.iterdir():
        text = path.read_text()
        for word in ("KeyName", "ssh_private_key", "account", "password", "/work/"):
            assert word not in text, path


# --- the Slurm script, with stand-ins for Slurm, Ray and our own command

STANDINS = {
    "srun": 'echo "$RAY_AUTH_MODE $RAY_AUTH_TOKEN" >> "$SAID.secrets"\n'
    'echo "srun $*" >> "$SAID"\necho $$ >> "$SAID.steps"\nexec sleep 60',
    "scontrol": 'echo "scontrol $*" >> "$SAID"\n[ "$1" = requeue ] || printf "a1\\na2\\na3\\n"',
    "hostname": 'if [ "$1" = --ip-address ]; then echo "127.0.1.1 fe80::1"; else echo 10.0.0.7; fi',
    "ray": 'echo "ray $*" >> "$SAID"\n[ "$(grep -c "ray status" "$SAID")" -ge 2 ]',
    "crosstraj": "exit 0",
}
OBEYS = """
trap 'echo "told" >> "$SAID"; sleep .3; exit 143' TERM
echo "crosstraj $*" >> "$SAID"
while true; do sleep .05; done
"""


def start(
    place: Path, crosstraj: str, ray: str = STANDINS["ray"], pause: str = "0.05"
) -> "tuple[subprocess.Popen[bytes], Path]":
    said = place / "said"
    said.touch()
    for name, script in (STANDINS | {"crosstraj": crosstraj, "ray": ray}).items():
        (place / name).write_text(f"#!/bin/bash\n{script}\n")
        (place / name).chmod(0o755)
    more = {
        "PATH": f"{place}:{os.environ['PATH']}",
        "CROSSTRAJ_BIN": str(place),
        "CROSSTRAJ_PAUSE": pause,
        "SAID": str(said),
        "SLURM_JOB_ID": "10012",
        "SLURM_JOB_NODELIST": "a[1-3]",
        "SLURM_CPUS_PER_TASK": "8",
        "TMPDIR": str(place),
    }
    process = subprocess.Popen(["bash", str(SCRIPT), *WORDS], env=os.environ | more)
    return process, said


def ended(said: Path) -> bool:
    """Whether no step is left, soon after the script has ended."""
    end = time.monotonic() + 10
    steps = [int(line) for line in Path(f"{said}.steps").read_text().split()]
    assert len(steps) == 3
    while any(Path(f"/proc/{step}").exists() for step in steps):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def wait_for(said: Path, words: str) -> None:
    end = time.monotonic() + 30
    while words not in said.read_text():
        assert time.monotonic() < end, said.read_text()
        time.sleep(0.02)


def test_the_slurm_script_parses_and_asks_to_be_requeued_with_a_warning_in_time() -> None:
    subprocess.run(["bash", "-n", str(SCRIPT)], check=True)
    asked = [line for line in SCRIPT.read_text().splitlines() if line.startswith("#SBATCH ")]
    for option in ("--requeue", "--open-mode=append", "--signal=B:TERM@300", "--no-kill"):
        assert f"#SBATCH {option}" in asked


@pytest.mark.parametrize("code", [0, 2])
def test_ray_is_started_node_by_node_then_the_experiment_whose_code_counts(
    code: int, tmp_path: Path
) -> None:
    wait = 'until [ "$(grep -c . "$SAID.steps")" -ge 3 ]; do sleep .02; done'
    ours = f'{wait}\necho "crosstraj $1 $2 $3 $4 $5 [$6]" >> "$SAID"\nexit {code}'
    process, said = start(tmp_path, ours)
    assert process.wait(timeout=60) == code
    lines = said.read_text().splitlines()
    head, *workers = sorted(line for line in lines if line.startswith("srun"))
    assert "--nodelist=a1 " in head
    assert f"{tmp_path}/ray start --head --block --node-ip-address=10.0.0.7 --port=20012 " in head
    assert "--num-cpus=7 " in head, "a core is the driver's"
    for node, line in zip(("a2", "a3"), workers, strict=True):
        assert f"--cpus-per-task=8 --overlap --no-kill --nodelist={node} " in line
        assert "--address=10.0.0.7:20012 --num-cpus=8" in line
    assert lines.count("ray status --address=10.0.0.7:20012") == 2, "workers wait for the head"
    command = "crosstraj experiment EXPERIMENT.toml --ray 10.0.0.7:20012 --only [two words]"
    assert lines[-1] == command
    assert not any("requeue" in line for line in lines)
    assert ended(said)


def test_each_job_has_a_secret_of_its_own_which_is_in_no_command(tmp_path: Path) -> None:
    secrets = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        wait = 'until [ "$(grep -c . "$SAID.steps")" -ge 3 ]; do sleep .02; done'
        process, said = start(tmp_path / name, wait)
        assert process.wait(timeout=60) == 0
        (secret,) = set(Path(f"{said}.secrets").read_text().splitlines())
        assert secret.split()[1] not in said.read_text()
        secrets.append(secret)
    assert secrets[0] != secrets[1]
    assert all(len(secret) == len("token ") + 64 for secret in secrets)


def test_a_warning_is_handed_on_and_the_job_goes_back_to_the_queue(tmp_path: Path) -> None:
    process, said = start(tmp_path, OBEYS)
    wait_for(said, "crosstraj experiment")
    while len(Path(f"{said}.steps").read_text().split()) < 3:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143
    assert said.read_text().splitlines()[-2:] == ["told", "scontrol requeue 10012"]
    assert ended(said)


def test_a_warning_before_the_experiment_began_is_not_lost(tmp_path: Path) -> None:
    process, said = start(tmp_path, "exit 0", ray='echo "ray $*" >> "$SAID"\nsleep .2; exit 1')
    wait_for(said, "ray status")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143
    assert said.read_text().splitlines()[-1] == "scontrol requeue 10012"
    assert "crosstraj" not in said.read_text().replace(str(tmp_path), "")


def test_a_head_that_never_answers_is_an_error(tmp_path: Path) -> None:
    process, said = start(tmp_path, "exit 0", ray='echo "ray $*" >> "$SAID"\nexit 1', pause="0")
    assert process.wait(timeout=60) == 1
    assert "requeue" not in said.read_text()
