"""A CronJob that submits a RayJob each night, and what it may do in its namespace: RayJobs, nothing else."""

from datetime import time

from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.manifests.merged import merged
from cudnn_sweep.cluster.manifests.ray_job import ray_job, with_script
from cudnn_sweep.cluster.manifests.resources import (
    FOLDER,
    RayJobRun,
    Resource,
    config_map,
    head_of,
    to_yaml,
    volume_of,
)

LONGEST_NIGHT_S = 20 * 3600  # one that waits for GPUs all day is given up before the next
LATEST_START_S = 3600
SMALL = {"cpu": "200m", "memory": "256Mi"}  # of a pod that calls kubectl three times
OWN = (
    "serviceAccountName",
    "automountServiceAccountToken",
    "containers",
)  # of the pod that submits
SUBMIT, JOB = "submit.sh", "rayjob.yaml"

# One RayJob, made anew each night: what the last one said can be read until then.
SUBMIT_SCRIPT = """\
set -eu
found=$(kubectl get rayjob {name} --namespace {namespace} --ignore-not-found \\
    --output 'jsonpath={{.metadata.name}}={{.status.jobDeploymentStatus}}')
case "$found" in
"" | *=Complete | *=Failed | *=ValidationFailed) ;;
*)
    echo "the night before has not ended, none is started: $found" >&2
    exit 1
    ;;
esac
kubectl delete rayjob {name} --namespace {namespace} --ignore-not-found --cascade=foreground
kubectl create --filename "$(dirname "$0")/{job}"
"""


def nightly_manifest(run: RayJobRun, at: time) -> list[Resource]:
    """`at`: UTC. Raises ClusterError where no image has kubectl."""
    schedule, name = f"{at.minute} {at.hour} * * *", f"{run.name}-nightly"
    if run.keys.kubectl_image is None:
        raise ClusterError(
            "metadata.sweep.kubernetes.kubectl_image: is missing: the CronJob submits with an image that "
            "has `kubectl` and `sh`"
        )
    job = ray_job(name, run)
    job["spec"]["activeDeadlineSeconds"] = LONGEST_NIGHT_S
    script = SUBMIT_SCRIPT.format(name=name, namespace=run.keys.namespace, job=JOB)
    submit = {SUBMIT: script.encode(), JOB: to_yaml(job).encode()}
    return [
        config_map(name, run, with_script(run)),
        config_map(f"{name}-submit", run, submit),
        head_of("v1", "ServiceAccount", name, run),
        _role(name, run),
        _role_binding(name, run),
        _cron_job(name, schedule, run, volume_of(f"{name}-submit", submit)),
    ]


def _role(name: str, run: RayJobRun) -> Resource:
    verbs = ["get", "list", "watch", "create", "delete"]  # `kubectl delete` lists and watches
    rule = {"apiGroups": ["ray.io"], "resources": ["rayjobs"], "verbs": verbs}
    return {**head_of("rbac.authorization.k8s.io/v1", "Role", name, run), "rules": [rule]}


def _role_binding(name: str, run: RayJobRun) -> Resource:
    return {
        **head_of("rbac.authorization.k8s.io/v1", "RoleBinding", name, run),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": run.keys.namespace}],
    }


def _cron_job(name: str, schedule: str, run: RayJobRun, volume: Resource) -> Resource:
    pod = {
        "restartPolicy": "Never",
        "serviceAccountName": name,
        "containers": [
            {
                "name": "submit",
                "image": run.keys.kubectl_image,
                "command": ["sh", f"{FOLDER}/{SUBMIT}"],
                "resources": {"requests": dict(SMALL), "limits": dict(SMALL)},
                "volumeMounts": [{"name": "files", "mountPath": FOLDER, "readOnly": True}],
            }
        ],
        "volumes": [volume],
    }
    theirs = {key: value for key, value in run.keys.pod.items() if key not in OWN}
    pod = merged(pod, theirs)
    return {
        **head_of("batch/v1", "CronJob", name, run),
        "spec": {
            "schedule": schedule,
            "timeZone": "Etc/UTC",  # or else that of the cluster's controller, which nobody sees
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": LATEST_START_S,
            "jobTemplate": {"spec": {"backoffLimit": 0, "template": {"spec": pod}}},
        },
    }
