"""What `sweep launch --manifest` prints: this sweep, or that of each night, as Kubernetes takes it."""

import io
import shlex
import tempfile
from dataclasses import replace
from datetime import time
from importlib.metadata import version
from pathlib import Path

from ruamel.yaml import YAML

from cudnn_sweep.analysis.storing.location import Location
from cudnn_sweep.cluster.keys import KubernetesKeys
from cudnn_sweep.cluster.launch_file import INSIDE, SWEEP, LaunchFile, read_launch_file
from cudnn_sweep.cluster.manifests.kubernetes import RESULTS_FOLDER, kubernetes_manifest
from cudnn_sweep.cluster.strict_yaml import read_document
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.request import request_of
from cudnn_sweep.orchestrator.planning.spec import SweepSpec, is_path
from cudnn_sweep.orchestrator.planning.spelling import words_of
from cudnn_sweep.orchestrator.remote.staging import take_file, take_own_code
from cudnn_sweep.workloads.cells.listed_shapes import ListedChoice
from cudnn_sweep.workloads.cells.suite import each

LAUNCH_FILE = "cluster.yaml"
NOT_THERE = ("address", "token", "allow_unauthenticated")  # of our part: how to reach it from here


def manifest(options: LaunchOptions, nightly_at: time | None) -> str:
    """YAML for `kubectl apply`; `nightly_at`: UTC. Raises SpecError for what is missing."""
    if options.file is None:
        raise SpecError(f"--manifest needs a launch file; there is no {LAUNCH_FILE} here")
    file = read_launch_file(options.file, SweepSpec)
    words = _words(options)
    if nightly_at is not None:
        if words != _words(LaunchOptions(file=options.file)):
            raise SpecError(
                "--at: a night takes what it runs from the launch file, metadata.sweep.nightly"
            )
        words = ["sweep", "nightly", LAUNCH_FILE]
        options = replace(options, suite=file.sweep.nightly.suite)
    keys = file.sweep.kubernetes
    if keys is None:
        raise SpecError(
            f"{file.path}: metadata.sweep.kubernetes: is missing: --manifest takes `image`, `namespace`, "
            "`workers` and `gpus` from there"
        )
    results = _lasting(options.results or file.sweep.results, keys)
    return kubernetes_manifest(
        str(file.ray_part.get("cluster_name") or "sweep"),
        keys,
        script=shlex.join(words),
        files={LAUNCH_FILE: _derived(file, results), **_own_files(file, options)},
        ray_version=version("ray"),
        nightly_at=nightly_at,
    )


def _lasting(results: str, keys: KubernetesKeys) -> str:
    """Where they lie for the pod that writes them, which ends with the job."""
    if Location(results).is_url:
        return results
    if keys.results_claim is None:
        raise SpecError(
            f"results: `{results}` is a folder of a pod and ends with it: give a URL (s3://bucket/sweeps), "
            "or the PersistentVolumeClaim that keeps it, metadata.sweep.kubernetes.results_claim"
        )
    return f"{RESULTS_FOLDER}/{results.strip('/')}"


def _words(options: LaunchOptions) -> list[str]:
    there = replace(options, file=Path(LAUNCH_FILE), results=None)
    own = ("dry_run", "ask", "detach", "manifest", "at")
    return ["sweep", "launch", *words_of(there, without=own)]


def _derived(file: LaunchFile[SweepSpec], results: str) -> bytes:
    """Our part alone: on the head the cluster is there."""
    asked = read_document(file.path).part(SWEEP)
    assert isinstance(asked, dict)
    kept = {key: value for key, value in asked.items() if key not in NOT_THERE}
    yaml, text = YAML(typ="safe", pure=True), io.BytesIO()  # YAML 1.2, as it is read
    yaml.default_flow_style, yaml.width = False, 1000
    yaml.dump({"metadata": {"sweep": {**kept, "address": INSIDE, "results": results}}}, text)
    return text.getvalue()


def _own_files(file: LaunchFile[SweepSpec], options: LaunchOptions) -> dict[str, bytes]:
    """What the suite names of the user's own, and itself where it is a file."""
    suite = options.suite or file.sweep.suite or ""
    with tempfile.TemporaryDirectory(prefix="sweep-manifest-") as folder:
        work = Path(folder)
        request = request_of(file, options)
        take_own_code(request, work)
        if is_path(suite):
            take_file(suite, work)
        beside = Path(suite).parent if is_path(suite) else Path()
        source = beside if is_path(suite) else file.path.parent
        choices = [choice for axes in request.suite.cells for choice in each(axes.regime)]
        files = [choice.listed.file for choice in choices if isinstance(choice, ListedChoice)]
        for name in dict.fromkeys(files):
            _take_listed(source / name, beside / name, work)
        found = sorted(path for path in work.rglob("*") if path.is_file())
        return {str(path.relative_to(work)): path.read_bytes() for path in found}


def _take_listed(source: Path, place: Path, work: Path) -> None:
    """Where the YAML file that names it will look. It was read, so it is there."""
    if place.is_absolute() or ".." in place.parts:
        raise SpecError(
            f"{place}: a file of shapes must lie beside the YAML file that names it, or below, to go into a pod"
        )
    (work / place).parent.mkdir(parents=True, exist_ok=True)
    (work / place).write_bytes(source.read_bytes())
