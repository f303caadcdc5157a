"""A RayJob for KubeRay: a head without a GPU, which the sweep's driver runs on, and workers with them."""

from datetime import datetime
from typing import Any

from cudnn_sweep.cluster.manifests.merged import merged
from cudnn_sweep.cluster.manifests.resources import (
    FOLDER,
    RESULTS_FOLDER,
    RayJobRun,
    Resource,
    config_map,
    head_of,
    volume_of,
)

SCRIPT = "run.sh"
NVIDIA = "nvidia.com/gpu"  # the taint that clouds give nodes with GPUs
HEAD_CPUS, HEAD_MEMORY_GIB = 2, 8  # the driver, Tune and the recorder; half of it is Ray's own
RAY_USER = 1000  # of Ray's images; a claim is root's until a group is named


def job_manifest(run: RayJobRun, now: datetime) -> list[Resource]:
    """A job of its own each time: launched again, a sweep goes on from its results."""
    name = f"{run.name}-{now:%Y%m%d-%H%M%S}"
    return [config_map(name, run, with_script(run)), ray_job(name, run)]


def with_script(run: RayJobRun) -> dict[str, bytes]:
    return {**run.files, SCRIPT: f'cd "$(dirname "$0")" && {run.script}\n'.encode()}


def ray_job(name: str, run: RayJobRun) -> Resource:
    """`name`: also that of the ConfigMap with its files."""
    head = head_of("ray.io/v1", "RayJob", name, run)
    head["metadata"]["labels"].update(run.keys.labels)
    return {
        **head,
        "spec": {
            # No word for a shell: KubeRay puts it into a command line of its own.
            "entrypoint": f"sh {FOLDER}/{SCRIPT}",
            "shutdownAfterJobFinishes": True,
            **({"submitterPodTemplate": {"spec": _submitter(run)}} if run.keys.pod else {}),
            "rayClusterSpec": {
                "rayVersion": run.ray_version,
                "authOptions": {"mode": "token"},  # KubeRay makes the token, a Secret of its own
                "headGroupSpec": {
                    "rayStartParams": {"num-cpus": "0", "num-gpus": "0"},
                    "template": {"spec": merged(_head(name, run), run.keys.pod)},
                },
                "workerGroupSpecs": [
                    {
                        "groupName": "gpu",
                        "replicas": run.keys.workers,
                        "minReplicas": run.keys.workers,
                        "maxReplicas": run.keys.workers,
                        "rayStartParams": {"num-gpus": str(run.keys.gpus)},
                        "template": {
                            "spec": merged(merged(_worker(run), run.keys.pod), run.keys.gpu_pod)
                        },
                    }
                ],
            },
        },
    }


def _head(config_map_name: str, run: RayJobRun) -> Resource:
    mounts = [{"name": "files", "mountPath": FOLDER, "readOnly": True}]
    volumes = [volume_of(config_map_name, with_script(run))]
    more: dict[str, Any] = {}
    if claim := run.keys.results_claim:
        mounts.append({"name": "results", "mountPath": RESULTS_FOLDER})
        volumes.append({"name": "results", "persistentVolumeClaim": {"claimName": claim}})
        more["securityContext"] = {"fsGroup": RAY_USER}
    container: Resource = {
        "name": "ray-head",
        "image": run.keys.image,
        "resources": _resources(HEAD_CPUS, HEAD_MEMORY_GIB),
        "volumeMounts": mounts,
    }
    if run.keys.secret:
        container["envFrom"] = [{"secretRef": {"name": run.keys.secret}}]
    return {
        "automountServiceAccountToken": False,
        **more,
        "containers": [container],
        "volumes": volumes,
    }


def _worker(run: RayJobRun) -> Resource:
    keys = run.keys
    resources = _resources(keys.gpus * keys.cpus_per_gpu, keys.gpus * keys.memory_gib_per_gpu)
    for part in resources.values():
        part[keys.gpu_resource] = str(keys.gpus)
    return {
        "automountServiceAccountToken": False,
        "containers": [{"name": "ray-worker", "image": keys.image, "resources": resources}],
        "tolerations": [{"key": NVIDIA, "operator": "Exists", "effect": "NoSchedule"}],
    }


def _submitter(run: RayJobRun) -> Resource:
    """As KubeRay makes it, which would leave the user's keys out: it is a pod of the same image."""
    limits, requests = {"cpu": "1", "memory": "1Gi"}, {"cpu": "500m", "memory": "200Mi"}
    container = {
        "name": "ray-job-submitter",
        "image": run.keys.image,
        "resources": {"limits": limits, "requests": requests},
    }
    keys = {key: value for key, value in run.keys.pod.items() if key != "containers"}
    return merged({"restartPolicy": "Never", "containers": [container]}, keys)


def _resources(cpus: int, memory_gib: int) -> dict[str, dict[str, str]]:
    """Equal, so that a pod has them to itself."""
    asked = {"cpu": str(cpus), "memory": f"{memory_gib}Gi"}
    return {"requests": dict(asked), "limits": dict(asked)}
