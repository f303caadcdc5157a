"""`metadata.sweep.kubernetes`: what is missing or cannot be is named with its line."""

from pathlib import Path

import pytest

from cudnn_sweep.cluster.errors import LaunchFileError
from cudnn_sweep.cluster.kubernetes_keys import KubernetesKeys
from cudnn_sweep.cluster.strict.strict_yaml import read_strict

WHOLE = {"namespace": "sweeps", "image": "registry/sweep:1", "workers": "2", "gpus": "1"}


def read(tmp_path: Path, keys: dict[str, str]) -> KubernetesKeys:
    file = tmp_path / "keys.yaml"
    file.write_text("".join(f"{key}: {value}\n" for key, value in keys.items()))
    return read_strict(file, KubernetesKeys)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (
            "gpu",
            "1",
            ":5: gpu: unknown key (did you mean `gpus`?), allowed: cpus_per_gpu, gpu_pod",
        ),
        ("workers", "0", ":3: workers: found `0`, wanted a number greater than 0"),
        ("gpus", "0.5", ":4: gpus: found `0.5`, wanted a whole number"),
        ("namespace", "My_Team", ":1: namespace: a name in Kubernetes has at most 63 of a-z"),
        ("image", "two words", ":2: image: wanted an image as a registry names it, found the text"),
        ("pod", "{containers: []}", ":5: pod: `containers` takes a list of one mapping"),
        (
            "gpu_pod",
            "{containers: [{image: a}]}",
            ":5: gpu_pod: `containers` takes no `name` or `im",
        ),
        ("secret", "AKIA/0123", ":5: secret: a name in Kubernetes has at most 63 of a-z"),
    ],
)
def test_mistake_is_named_with_its_line(tmp_path: Path, key: str, value: str, said: str) -> None:
    with pytest.raises(LaunchFileError) as error:
        read(tmp_path, {**WHOLE, key: value})
    assert said in str(error.value)
