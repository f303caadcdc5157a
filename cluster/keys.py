"""`metadata.sweep.nightly` of a launch file (what `sweep nightly` runs, and whom it tells) and
`metadata.sweep.kubernetes` (what `sweep launch --manifest` needs to know).
"""

import re
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    JsonValue,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

USER = re.compile(r"(\w+:)?/*[^/]*@")  # before the host of a URL
OURS = ("name", "image")  # of a container
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


class WebhookKeys(BaseModel, frozen=True, extra="forbid"):
    """The URL is a secret, since anyone who has it can post. So the file says only where to find
    it: in `url_env` or in `url_file`.
    """

    url_env: str | None = None
    """A variable of the environment that holds the URL."""
    url_file: str | None = None
    """A file whose one line is the URL."""
    form: Literal["json", "slack", "apprise"] = "json"
    """What is posted: the whole outcome as JSON, a message for Slack, or a message through apprise."""

    @model_validator(mode="after")
    def _one_source(self) -> "WebhookKeys":
        # Of the whole, not of a key: an error shows what stands at its key, which may be the URL.
        if (self.url_env is None) == (self.url_file is None):
            raise ValueError("give `url_env` or `url_file`, one of them")
        if self.url_env is not None and not self.url_env.isidentifier():
            raise ValueError("`url_env` takes the name of a variable that holds the URL")
        if self.url_file is not None and "://" in self.url_file:
            raise ValueError("`url_file` takes the path of a file that holds the URL")
        return self


class NightlyKeys(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """What a night measures, and what it compares with."""

    suite: str = "nightly"
    """The suite that a night runs: bundled, or a .yaml file."""
    budget_minutes: PositiveFloat = 60.0
    """No new block starts after this long."""
    wait_minutes: NonNegativeFloat = 30.0
    """How long a GPU of this machine that others work on is waited for, before the budget begins."""
    last_good: str | None = None
    """The Python of a virtual environment whose software counts as good."""
    name: str | None = None
    """Name of the nights, needed if launch files share results. Default: the `cluster_name`, or the
    file's name."""
    webhook: WebhookKeys | None = None
    """Where the outcome of a night is posted."""
    report_url: str | None = None
    """Where the folder of its reports is served, for the message: it links DATE/night.html below it."""

    @model_validator(mode="after")
    def _link_without_key(self) -> "NightlyKeys":
        # Of the whole, as above: the link stands in a message that many read.
        if self.report_url and USER.match(self.report_url):
            raise ValueError("`report_url` takes a URL without user and password")
        return self


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
