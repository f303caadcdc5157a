"""What manifests are made of: names, files in ConfigMaps, YAML."""

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import yaml  # type: ignore[import-untyped]

from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.kubernetes_keys import KubernetesKeys

Resource: TypeAlias = dict[str, Any]  # as Kubernetes' API has it

FOLDER = "/etc/cudnn-sweep"  # where a pod finds its files
RESULTS_FOLDER = "/sweep-results"  # where it finds the claim for results
MOST_BYTES = 900_000  # Kubernetes takes 1 MiB, keys and base64 included
LONGEST_NAME = 31  # KubeRay takes 47 for a RayJob: what is added has 16


@dataclass(frozen=True, kw_only=True, slots=True)
class RayJobRun:
    """What a RayJob runs on its head."""

    cluster_name: str
    keys: KubernetesKeys
    script: str
    """The script that `sh` runs, in the folder of the files."""
    files: Mapping[str, bytes]
    """The files by their path in that folder."""
    ray_version: str

    @property
    def name(self) -> str:
        """A DNS label."""
        words = re.sub(r"[^a-z0-9]+", "-", self.cluster_name.lower()).strip("-")
        named = words if words[:1].isalpha() else f"sweep-{words}"
        return named[:LONGEST_NAME].strip("-")


def head_of(api_version: str, kind: str, name: str, run: RayJobRun) -> Resource:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": run.keys.namespace,
            "labels": {
                "app.kubernetes.io/name": "cudnn-sweep",
                "app.kubernetes.io/instance": run.name,
            },
        },
    }


def config_map(name: str, run: RayJobRun, files: Mapping[str, bytes]) -> Resource:
    """Raises ClusterError for more than a ConfigMap holds."""
    texts: dict[str, str] = {}
    others: dict[str, str] = {}
    for key, content in zip(_keys(files), files.values(), strict=True):
        try:
            texts[key] = content.decode()
        except UnicodeDecodeError:
            others[key] = b64encode(content).decode()
    size = sum(len(each.encode()) for each in (*texts.values(), *others.values()))
    if size > MOST_BYTES:
        raise ClusterError(
            f"the code that the suite names takes {size:,} bytes, a ConfigMap at most {MOST_BYTES:,}: "
            "install it in the image"
        )
    found = {**head_of("v1", "ConfigMap", name, run), "data": texts}
    return {**found, "binaryData": others} if others else found


def volume_of(config_map_name: str, files: Mapping[str, bytes]) -> Resource:
    """The files at their paths: a ConfigMap's keys have no folders."""
    items = [{"key": key, "path": path} for key, path in zip(_keys(files), files, strict=True)]
    return {"name": "files", "configMap": {"name": config_map_name, "items": items}}


def _keys(paths: Iterable[str]) -> list[str]:
    return [f"{number}-{path.rpartition('/')[2]}" for number, path in enumerate(paths)]


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Texts of several lines as blocks, no aliases: for people to read."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(*resources: Resource) -> str:
    found: str = yaml.dump_all(resources, Dumper=_Dumper, sort_keys=False, width=1000)
    return found
