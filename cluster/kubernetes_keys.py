"""`metadata.sweep.kubernetes` of a launch file: what `sweep launch --manifest` needs to know."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, JsonValue, PositiveInt

OURS = ("name", "image")  # of a container
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


def _name(text: str) -> str:
    if len(text) > 63 or not NAME.fullmatch(text):
        raise ValueError("a name in Kubernetes has at most 63 of a-z, 0-9, `-` and `.`")
    return text


def _image(text: str) -> str:
    if not text or text.split() != [text]:
        raise ValueError("wanted an image as a registry names it")
    return text


def _pod(keys: dict[str, JsonValue]) -> dict[str, JsonValue]:
    containers = keys.get("containers", [{}])
    if (
        not isinstance(containers, list)
        or len(containers) != 1
        or not isinstance(containers[0], dict)
    ):
        raise ValueError(
            "`containers` takes a list of one mapping, which is merged into the pod's container"
        )
    if any(key in containers[0] for key in OURS):
        raise ValueError(
            f"`containers` takes no {' or '.join(f'`{key}`' for key in OURS)}: other keys give them"
        )
    return keys


Name = Annotated[str, AfterValidator(_name)]
Image = Annotated[str, AfterValidator(_image)]


class KubernetesKeys(BaseModel, frozen=True, extra="forbid"):
    """The pods that a manifest requests."""

    namespace: Name
    """Namespace of the RayJob."""
    image: Image
    """Image of all pods, with this version of our package, the Ray version that is installed here,
    and torch."""
    workers: PositiveInt
    """Number of pods with GPUs."""
    gpus: PositiveInt
    """GPUs of each worker."""
    cpus_per_gpu: PositiveInt = 4
    """CPUs of a worker per GPU."""
    memory_gib_per_gpu: PositiveInt = 16
    """Memory of a worker per GPU, in GiB."""
    results_claim: Name | None = None
    """A PersistentVolumeClaim, needed if `results` is a folder."""
    secret: Name | None = None
    """A Secret whose keys are variables of the driver's environment: an object store's credentials."""
    pod: Annotated[dict[str, JsonValue], AfterValidator(_pod)] = {}
    """Keys of the spec of every pod, as Kubernetes has them: imagePullSecrets, serviceAccountName, tolerations."""
    gpu_pod: Annotated[dict[str, JsonValue], AfterValidator(_pod)] = {}
    """The same for pods with GPUs, beside `pod`: nodeSelector, runtimeClassName, volumes."""
    gpu_resource: str = "nvidia.com/gpu"
    """What a GPU is called there, as `nvidia.com/mig-1g.10gb`."""
    labels: dict[str, str] = {}
    """Labels of the RayJob, as Kueue's `kueue.x-k8s.io/queue-name`."""
    kubectl_image: Image | None = None
    """An image with `kubectl` and `sh`, for nights."""
