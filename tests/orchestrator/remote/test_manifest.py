"""`sweep launch --manifest`: what it prints is valid where it is read, and what it starts runs a sweep."""

import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from datetime import time
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml  # type: ignore[import-untyped]

from cudnn_sweep.analysis.storing.store import open_store
from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.launch_file import read_launch_file
from cudnn_sweep.cluster.manifests.kubernetes import RESULTS_FOLDER
from cudnn_sweep.orchestrator.launching.destinations import destination_of
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.request import request_of
from cudnn_sweep.orchestrator.planning.spec import SweepSpec
from cudnn_sweep.orchestrator.remote.clusters import Inside
from cudnn_sweep.orchestrator.remote.manifest import manifest
from cudnn_sweep.orchestrator.remote.staging import take_own_code
from tests.orchestrator.typed import invoke
from tests.test_docs import sample

pytestmark = pytest.mark.clustered

EXAMPLE = Path(__file__).parents[3] / "cluster/examples/kubernetes.yaml"
SCHEMA = json.loads(
    files("cudnn_sweep.cluster").joinpath("manifests/rayjob.schema.json").read_text()
)
KUBERNETES = kubernetes_validate.latest_version()
MINE = """
cluster_name: Lab 7_a
metadata:
  sweep:
    cells: [{workload: mine.py:Net, input: 2x3x16x16}]
    configs: [{benchmark: false}]
    replicates: 1
    measure: {warmup_s: 0, steady_budget_s: 0.05, timeout_s: 100, calibrate: false, reference_replicates: 0}
    kubernetes: {namespace: sweeps, image: registry/sweep:1, workers: 1, gpus: 2, results_claim: kept}
"""
MODEL = "from torch import nn\n\n\ndef Net():\n    return nn.Conv2d(3, 4, 3)\n"
CELLS_OF_FILES = """
cells:
  - workload: mine.py:Net
    input: 2x3x16x16
    regime: [{listed: {file: sizes/shapes.csv}}, code/rules.py:Buckets]
    model: {inputs: code/batches.py:make, loss: code/losses.py:dice}
"""
FAKE_KUBECTL = """#!/bin/sh
echo "$@" >> {log}
[ "$1" != get ] || printf %s "{answer}"
"""

FOLDER = "/etc/cudnn-sweep"  # where a pod finds its files
NIGHT = time(2, 30)

Resources = dict[str, dict[str, Any]]


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A launch file with a model of the user's own beside it, in the current folder."""
    (tmp_path / "mine.py").write_text(MODEL)
    (tmp_path / "cluster.yaml").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cluster.yaml"


def printed(file: Path, nightly_at: time | None = None, **options: Any) -> Resources:
    """By kind; ConfigMaps by name. All of it is valid."""
    text = manifest(LaunchOptions(file=file, **options), nightly_at)
    found: list[dict[str, Any]] = list(yaml.safe_load_all(text))
    kinds = {
        each["metadata"]["name"] if each["kind"] == "ConfigMap" else each["kind"]: each
        for each in found
    }
    assert len(kinds) == len(found)
    for kind, each in kinds.items():
        if kind != "RayJob":
            kubernetes_validate.validate(each, KUBERNETES, strict=True)
    check_job(job_of(kinds))
    return kinds


def job_of(resources: Resources) -> dict[str, Any]:
    """The one that is applied, or that a night submits."""
    if "RayJob" in resources:
        return resources["RayJob"]
    submits = resources["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    job: dict[str, Any] = yaml.safe_load(files_of(resources, submits["volumes"][0])["rayjob.yaml"])
    return job


def files_of(resources: Resources, volume: dict[str, Any]) -> dict[str, str]:
    """What a pod with that volume sees, by path."""
    source = volume["configMap"]
    data: dict[str, str] = resources[source["name"]]["data"]
    if "items" not in source:
        return data
    return {item["path"]: data[item["key"]] for item in source["items"]}


def files_of_the_head(resources: Resources, job: dict[str, Any]) -> dict[str, str]:
    pod = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    return files_of(resources, pod["volumes"][0])


def check_job(job: dict[str, Any]) -> None:
    jsonschema.validate(job, SCHEMA)
    cluster = job["spec"]["rayClusterSpec"]
    templates = [
        group["template"] for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])
    ]
    templates += (
        [job["spec"]["submitterPodTemplate"]] if "submitterPodTemplate" in job["spec"] else []
    )
    for template in templates:
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, **template}
        kubernetes_validate.validate(pod, KUBERNETES, strict=True)


def test_pods_have_what_the_launch_file_says_of_them(mine: Path) -> None:
    (page,) = re.findall(r"(?<=    kubernetes:\n)(?:.+\n)+", sample("docs/places.md", "gpu_pod:"))
    keys = yaml.safe_load(textwrap.dedent(page))
    kubernetes = keys | {"namespace": "sweeps", "image": "registry/sweep:1", "kubectl_image": "k:1"}
    kubernetes |= {"workers": 1, "gpus": 2, "results_claim": "kept"}
    mine.write_text(MINE.replace(re.findall("kubernetes: (.*)", MINE)[0], json.dumps(kubernetes)))
    for nightly_at in (None, NIGHT):
        resources = printed(mine, nightly_at)
        job = job_of(resources)
        if nightly_at:
            cron = resources["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
            assert cron["serviceAccountName"] == "lab-7-a-nightly", "which may submit"
            assert cron["imagePullSecrets"] == keys["pod"]["imagePullSecrets"]
        assert keys["labels"].items() <= job["metadata"]["labels"].items()
        cluster = job["spec"]["rayClusterSpec"]
        head, worker = (
            group["template"]["spec"]
            for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])
        )
        submitter = job["spec"]["submitterPodTemplate"]["spec"]
        assert "command" not in submitter["containers"][0], "KubeRay's own"
        for pod in (head, worker, submitter):
            assert pod["serviceAccountName"] == keys["pod"]["serviceAccountName"]
            assert pod["imagePullSecrets"] == keys["pod"]["imagePullSecrets"]
        assert "nodeSelector" not in head
        assert worker["nodeSelector"] == keys["gpu_pod"]["nodeSelector"]
        assert len(worker["tolerations"]) == 1 + len(keys["gpu_pod"]["tolerations"])
        (container,) = worker["containers"]
        (mount,) = container["volumeMounts"]
        assert mount["mountPath"] == "/dev/shm"
        assert mount["name"] in [volume["name"] for volume in worker["volumes"]]
        assert container["resources"]["limits"][keys["gpu_resource"]] == "2"
        assert "nvidia.com/gpu" not in container["resources"]["limits"]


@pytest.mark.parametrize(
    ("answer", "verbs"),
    [
        ("", ["get", "delete", "create"]),
        ("gpus-nightly=Failed", ["get", "delete", "create"]),
        ("gpus-nightly=Running", ["get"]),
        ("gpus-nightly=", ["get"]),  # just made
    ],
)
def test_night_is_submitted_unless_the_last_one_runs(
    tmp_path: Path, answer: str, verbs: list[str]
) -> None:
    resources = printed(EXAMPLE, NIGHT)
    pod = resources["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    for path, text in files_of(resources, pod["volumes"][0]).items():
        (tmp_path / path).write_text(text)
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(FAKE_KUBECTL.format(log=tmp_path / "log", answer=answer))
    kubectl.chmod(0o755)
    done = subprocess.run(
        [word.replace(FOLDER, str(tmp_path)) for word in pod["containers"][0]["command"]],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    calls = (tmp_path / "log").read_text().splitlines()
    assert [call.split()[0] for call in calls] == verbs
    assert (done.returncode == 0) == ("create" in verbs)
    assert ("has not ended" in done.stderr) == ("create" not in verbs)


def test_launch_file_in_the_pod_reads_as_the_users(mine: Path, tmp_path: Path) -> None:
    tricky = "preload: ['1e3', 'on', '0o7', '2.10', 'null', 'ü: #']\n    token: secret\n"
    mine.write_text(f"{MINE}    {tricky}")
    resources = printed(mine)
    there = files_of_the_head(resources, resources["RayJob"])
    assert there["mine.py"] == MODEL
    copy = tmp_path / "there.yaml"
    copy.write_text(there["cluster.yaml"])
    launch = read_launch_file(copy, SweepSpec)
    assert isinstance(destination_of(launch), Inside)
    users = read_launch_file(mine, SweepSpec).sweep
    changed = {"address": "auto", "results": f"{RESULTS_FOLDER}/results", "token": None}
    assert launch.sweep == users.model_copy(update=changed)
    assert resources["RayJob"]["metadata"]["name"].startswith("lab-7-a-")


def test_files_that_cells_name_come_along(mine: Path, tmp_path: Path) -> None:
    code = {"code/rules.py", "code/batches.py", "code/losses.py"}
    listed = "suites/sizes/shapes.csv"
    for name in (*code, "suites/few.yaml", listed):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "suites/few.yaml").write_text(CELLS_OF_FILES)
    (tmp_path / listed).write_text("height,width\n16,16\n")
    resources = printed(mine, suite="suites/few.yaml")
    there = files_of_the_head(resources, resources["RayJob"])
    assert set(there) == {"cluster.yaml", "run.sh", "mine.py", "suites/few.yaml", listed, *code}
    assert shlex.split(there["run.sh"])[-2:] == ["--suite", "suites/few.yaml"]

    work = tmp_path / "job"
    work.mkdir()
    options = LaunchOptions(file=mine, suite="suites/few.yaml")
    request = request_of(read_launch_file(mine, SweepSpec), options)
    take_own_code(request, work)
    taken = {str(path.relative_to(work)) for path in work.rglob("*") if path.is_file()}
    assert taken == {"mine.py", *code}  # the request itself holds what the file of shapes says


def test_more_code_than_a_config_map_holds_is_refused(mine: Path) -> None:
    mine.with_name("mine.py").write_text(MODEL + "#" * 1_000_000)
    with pytest.raises(ClusterError, match="a ConfigMap at most 900,000: install it in the image"):
        printed(mine)


def test_nothing_but_yaml_is_printed() -> None:
    assert len(printed(EXAMPLE)) == 2
    done = invoke(["launch", str(EXAMPLE), "--manifest"])
    assert done.exit_code == 0
    assert [each["kind"] for each in yaml.safe_load_all(done.stdout)] == ["ConfigMap", "RayJob"]


@pytest.mark.slow
def test_entrypoint_runs_the_sweep_on_the_cluster_that_it_finds(
    mine: Path, ray_here: Path, tmp_path: Path
) -> None:
    """As a RayJob's head does: in a process of its own, with what Ray tells it by the environment."""
    import ray

    resources = printed(mine)
    folder, claim = tmp_path / "files", tmp_path / "claim"
    folder.mkdir()
    for path, text in files_of_the_head(resources, resources["RayJob"]).items():
        (folder / path).write_text(text.replace(RESULTS_FOLDER, str(claim)))
    entrypoint = resources["RayJob"]["spec"]["entrypoint"].replace(FOLDER, str(folder))
    done = subprocess.run(
        shlex.split(entrypoint),
        cwd="/",
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "RAY_ADDRESS": ray.get_runtime_context().gcs_address,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 trials recorded (2 ok)" in done.stdout
    assert "Warning" not in done.stderr
    records = open_store(str(claim / "results")).snapshot().table(["workload"]).to_pylist()
    assert records == [{"workload": "mine.py:Net"}] * 2
