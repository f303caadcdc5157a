"""Slurm, containers, machines without a network: what the page tells to type is there, and parses."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import kubernetes_validate  # type: ignore[import-untyped]
import yaml  # type: ignore[import-untyped]

from cudnn_sweep.cluster.launch_file import read_launch_file
from cudnn_sweep.orchestrator.planning.spec import SweepSpec
from cudnn_sweep.orchestrator.remote.clusters import Inside
from cudnn_sweep.orchestrator.remote.destinations import Here, destination_of
from tests.test_docs import options_of

ROOT = Path(__file__).parents[1]
SLURM = ROOT / "docs/examples/slurm"
KUBERNETES = ROOT / "docs/examples/kubernetes"
DOCKERFILE = ROOT / "docs/examples/docker/Dockerfile"
INSTRUCTIONS = ("FROM", "RUN", "COPY", "ARG", "ENV", "WORKDIR", "CMD")
STAND_INS = {
    "srun": 'exec "$@"',
    "sweep": 'echo "$@" >> "$CALLS"',
    "sbatch": """
for script; do :; done
echo "$@" >> "$SUBMITTED"
count=$(sed -n 's/^#SBATCH --array=1-//p' "$script")
for number in $(seq "${count:-1}"); do
  env ${count:+SLURM_ARRAY_TASK_ID=$number SLURM_ARRAY_TASK_COUNT=$count} bash "$script" >&2
done
echo 7""",
}


def test_slurm_runs_each_shard_of_one_sweep_and_then_asks(tmp_path: Path) -> None:
    for name, text in STAND_INS.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    there = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "CALLS": str(tmp_path / "calls"),
        "SUBMITTED": str(tmp_path / "submitted"),
    }
    subprocess.run([SLURM / "submit.sh", "june"], env=there, check=True, capture_output=True)
    calls = [shlex.split(line) for line in (tmp_path / "calls").read_text().splitlines()]
    launches = [" ".join(words) for words in calls if words[0] == "launch"]
    usual = "launch launch.yaml --sweep-id june"
    assert launches == [*(f"{usual} --shard {number}/4" for number in range(1, 5)), usual]
    assert [words[0] for words in calls[-2:]] == ["query", "report"]
    for words in calls:
        assert {word for word in words if word.startswith("--")} <= options_of(words), words
    assert (tmp_path / "submitted").read_text().splitlines() == [
        "--parsable shard.sbatch",
        "--dependency=afterany:7 ask.sbatch",
    ]
    launch = read_launch_file(SLURM / "launch.yaml", SweepSpec)
    assert isinstance(destination_of(launch), Here)
    (hours,) = re.findall(r"--time=(\d+):00:00", (SLURM / "shard.sbatch").read_text())
    assert launch.sweep.minutes is not None
    assert launch.sweep.minutes < 60 * int(hours)


def instructions() -> list[tuple[str, str]]:
    """Each of the Dockerfile with what it is told."""
    lines = DOCKERFILE.read_text().replace("\\\n", " ").splitlines()
    told = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in told]


def test_dockerfile_copies_all_that_the_package_is_built_from_and_its_commands_parse() -> None:
    told = instructions()
    assert {word for word, _ in told} <= set(INSTRUCTIONS)
    copied: set[str] = set()
    for word, rest in told:
        if word == "RUN":
            subprocess.run(["bash", "-n", "-c", rest], check=True)
        if word == "COPY":
            sources = [each for each in shlex.split(rest) if not each.startswith("--")][:-1]
            assert all((ROOT / source).exists() for source in sources), rest
            copied.update(sources)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    folders = set(project["tool"]["setuptools"]["package-dir"].values())
    assert copied == {"pyproject.toml", "LICENSE", project["project"]["readme"], *folders}
    (extras,) = re.findall(r"cudnn-sweep\[(.*?)\]", DOCKERFILE.read_text())
    assert set(extras.split(",")) <= set(project["project"]["optional-dependencies"])


def test_image_has_the_ray_that_is_pinned() -> None:
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    (ray,) = [pin.removeprefix("ray==") for pin in pins if pin.startswith("ray==")]
    assert instructions()[0][1].startswith(f"rayproject/ray:{ray}-")


def test_github_takes_the_workflow_to_copy() -> None:
    check = ["-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    workflow = str(ROOT / "docs/examples/github-nightly.yaml")
    subprocess.run([sys.executable, *check, workflow], check=True, capture_output=True)


def test_kubernetes_reads_what_it_is_given() -> None:
    kubectl = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    made = {each["name"]: each["files"] for each in kubectl["configMapGenerator"]}
    assert all((KUBERNETES / file).is_file() for files in made.values() for file in files)
    (job,) = yaml.safe_load_all((KUBERNETES / "rayjob.yaml").read_text())
    job["metadata"]["namespace"] = kubectl["namespace"]  # as kustomize does
    jsonschema.validate(job, json.loads((ROOT / "tests/rayjob.schema.json").read_text()))
    cluster = job["spec"]["rayClusterSpec"]
    groups = (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])
    pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, **each["template"]}
            for each in groups]  # fmt: skip
    night = list(yaml.safe_load_all((KUBERNETES / "night.yaml").read_text()))
    for each in (*pods, *night):
        kubernetes_validate.validate(each, kubernetes_validate.latest_version(), strict=True)
    head, submits = (
        each["spec"] for each in (pods[0], night[0]["spec"]["jobTemplate"]["spec"]["template"])
    )
    for pod in (head, submits):
        (files,), (mounts,) = pod["volumes"], pod["containers"]
        there, (mount,) = made[files["configMap"]["name"]], mounts["volumeMounts"]
        typed = job["spec"]["entrypoint"] if pod is head else mounts["args"][0]
        (file,) = re.findall(rf"{mount['mountPath']}/(\S+)", typed)
        assert file in there
    assert "sweep launch launch.yaml" in (KUBERNETES / "run.sh").read_text()
    launch = read_launch_file(KUBERNETES / "launch.yaml", SweepSpec)
    assert isinstance(destination_of(launch), Inside)
