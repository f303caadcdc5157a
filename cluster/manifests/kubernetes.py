"""A sweep, or that of each night, as Kubernetes takes it: kubernetes.yaml with what a launch file says."""

import re
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime, time
from importlib.resources import files as resource_files
from typing import Any

import yaml  # type: ignore[import-untyped]
from pydantic import JsonValue

from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.keys import KubernetesKeys

TEMPLATE = resource_files(__package__).joinpath("kubernetes.yaml")
RESULTS_FOLDER = "/sweep-results"  # where the head finds the claim for results
MOST_BYTES = 900_000  # Kubernetes takes 1 MiB, keys and base64 included
LONGEST_NAME = 31  # KubeRay takes 47 for a RayJob: what is added has 16
LONGEST_NIGHT_S = 20 * 3600  # one that waits for GPUs all day is given up before the next
SUBMITS = ("serviceAccountName", "automountServiceAccountToken")  # of the pod that submits nights


def kubernetes_manifest(
    cluster_name: str,
    keys: KubernetesKeys,
    *,
    script: str,
    files: Mapping[str, bytes],
    ray_version: str,
    nightly_at: time | None = None,
) -> str:
    """YAML for `kubectl apply`: a job of its own each time, or a CronJob that submits one each night.

    `script` runs in the folder of `files`, which are named by their path there. `nightly_at` is UTC. Raises
    ClusterError for more files than a ConfigMap holds, and for nights without an image that has kubectl.
    """
    if nightly_at is not None and keys.kubectl_image is None:
        raise ClusterError(
            "metadata.sweep.kubernetes.kubectl_image: is missing: the CronJob submits with an image that "
            "has `kubectl` and `sh`"
        )
    instance = _name_of(cluster_name)
    suffix = f"{datetime.now(UTC):%Y%m%d-%H%M%S}" if nightly_at is None else "nightly"
    files = {**files, "run.sh": f'cd "$(dirname "$0")" && {script}\n'.encode()}
    keyed = {
        f"{i}-{path.rpartition('/')[2]}": content for i, (path, content) in enumerate(files.items())
    }
    words = {
        **keys.model_dump(),
        "instance": instance,
        "name": f"{instance}-{suffix}",
        "ray_version": ray_version,
        "gpus": str(keys.gpus),
        "cpus": str(keys.gpus * keys.cpus_per_gpu),
        "memory": f"{keys.gpus * keys.memory_gib_per_gpu}Gi",
        "items": [{"key": key, "path": path} for key, path in zip(keyed, files, strict=True)],
        "schedule": nightly_at and f"{nightly_at.minute} {nightly_at.hour} * * *",
    }
    parts = _filled(yaml.safe_load(TEMPLATE.read_text()), words)
    config_map, job = parts["files"] | _data(keyed), parts["job"]
    _merge_keys(job, keys, parts)
    if nightly_at is None:
        return _yaml(config_map, job)
    job["spec"]["activeDeadlineSeconds"] = LONGEST_NIGHT_S
    submit, *_, cron_job = parts["nights"]
    submit["data"]["rayjob.yaml"] = _yaml(job)
    theirs = {key: each for key, each in keys.pod.items() if key not in (*SUBMITS, "containers")}
    _merge(cron_job["spec"]["jobTemplate"]["spec"]["template"], theirs)
    return _yaml(config_map, *parts["nights"])


def _name_of(cluster_name: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", cluster_name.lower()).strip("-")
    named = words if words[:1].isalpha() else f"sweep-{words}"
    return named[:LONGEST_NAME].strip("-")


def _filled(part: Any, words: Mapping[str, object]) -> Any:
    """With <words> replaced: one that stands alone by its value, others as text."""
    if isinstance(part, dict):
        return {_filled(key, words): _filled(value, words) for key, value in part.items()}
    if isinstance(part, list):
        return [_filled(each, words) for each in part]
    if not isinstance(part, str):
        return part
    alone = re.fullmatch(r"<(\w+)>", part)
    return words[alone[1]] if alone else re.sub(r"<(\w+)>", lambda w: str(words[w[1]]), part)


def _data(contents: Mapping[str, bytes]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {"data": {}}
    for key, content in contents.items():
        try:
            found["data"][key] = content.decode()
        except UnicodeDecodeError:
            found.setdefault("binaryData", {})[key] = b64encode(content).decode()
    size = sum(len(text.encode()) for part in found.values() for text in part.values())
    if size > MOST_BYTES:
        raise ClusterError(
            f"the code that the suite names takes {size:,} bytes, a ConfigMap at most {MOST_BYTES:,}: "
            "install it in the image"
        )
    return found


def _merge_keys(job: dict[str, Any], keys: KubernetesKeys, parts: Mapping[str, Any]) -> None:
    spec = job["spec"]
    cluster = spec["rayClusterSpec"]
    head, worker = cluster["headGroupSpec"]["template"], cluster["workerGroupSpecs"][0]["template"]
    for optional in ("results_claim", "secret"):
        if getattr(keys, optional):
            _merge(head, parts[optional])
    for template in (head, worker):
        _merge(template, keys.pod)
    _merge(worker, keys.gpu_pod)
    others = {key: value for key, value in keys.pod.items() if key != "containers"}
    _merge(spec["submitterPodTemplate"], others)
    if not keys.pod:
        del spec["submitterPodTemplate"]
    job["metadata"]["labels"].update(keys.labels)


def _merge(template: dict[str, Any], keys: Mapping[str, JsonValue]) -> None:
    """Keys of a pod's spec: mappings are merged, lists are joined, anything else replaces ours."""
    template["spec"] = _merged(template["spec"], keys)


def _merged(ours: Any, theirs: Any, name: str = "") -> Any:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        both = {key: _merged(ours[key], theirs[key], key) for key in ours if key in theirs}
        return {**ours, **theirs, **both}
    if isinstance(ours, list) and isinstance(theirs, list):
        if name == "containers":  # a pod has one
            return [_merged(ours[0], theirs[0])]
        return [*ours, *(each for each in theirs if each not in ours)]
    return theirs


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Texts of several lines as blocks, no aliases: for people to read."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def _yaml(*resources: object) -> str:
    found: str = yaml.dump_all(resources, Dumper=_Dumper, sort_keys=False, width=1000)
    return found
