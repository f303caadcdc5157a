"""`metadata.sweep.nightly` and `.kubernetes`: a mistake is named with its line, and no URL that was put in the wrong place is shown."""

from pathlib import Path

import pytest

from cudnn_sweep.cluster.errors import LaunchFileError
from cudnn_sweep.cluster.kubernetes_keys import KubernetesKeys
from cudnn_sweep.cluster.nightly_keys import NightlyKeys
from cudnn_sweep.cluster.strict.strict_yaml import read_strict

SECRET = "T0/B0/abc"
URL = f"https://hooks.example/services/{SECRET}"


@pytest.mark.parametrize(
    ("webhook", "said"),
    [
        ("{}", "give `url_env` or `url_file`"),
        ("{url_env: HOOK, url_file: hook}", "give `url_env` or `url_file`"),
        (f"{{url: '{URL}'}}", "unknown key"),
        (f"{{url_env: '{URL}'}}", "`url_env` takes the name of a variable"),
        (f"{{url_file: '{URL}'}}", "`url_file` takes the path of a file"),
        ("{url_env: HOOK, form: teams}", "'json' or 'slack'"),
    ],
)
def test_mistake_is_named_without_the_url(tmp_path: Path, webhook: str, said: str) -> None:
    file = tmp_path / "nightly.yaml"
    file.write_text(f"webhook: {webhook}\n")
    with pytest.raises(LaunchFileError) as error:
        read_strict(file, NightlyKeys)
    assert said in str(error.value)
    assert SECRET not in str(error.value)


@pytest.mark.parametrize("url", ["https://me:hush@h.example/lab", "u:hush@h/lab", "//hush@h"])
def test_a_link_that_would_post_a_password_is_refused_without_it(tmp_path: Path, url: str) -> None:
    file = tmp_path / "nightly.yaml"
    file.write_text(f"report_url: {url}\n")
    with pytest.raises(LaunchFileError, match="`report_url` takes a URL without user") as error:
        read_strict(file, NightlyKeys)
    assert "hush" not in str(error.value)
    file.write_text("report_url: https://h.example/@lab\n")
    assert read_strict(file, NightlyKeys).report_url == "https://h.example/@lab"


PODS = {"namespace": "sweeps", "image": "registry/sweep:1", "workers": "2", "gpus": "1"}


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("gpu", "1", ":5: gpu: unknown key (did you mean `gpus`?), allowed: cpus_per_gpu, gpu_pod"),
        ("namespace", "My_Team", ":1: namespace: a name in Kubernetes has at most 63 of a-z"),
        ("image", "two words", ":2: image: wanted an image as a registry names it, found the text"),
        ("pod", "{containers: []}", ":5: pod: `containers` takes a list of one mapping"),
        ("gpu_pod", "{containers: [{image: a}]}", ": `containers` takes no `name` or `im"),
        ("secret", "AKIA/0123", ":5: secret: a name in Kubernetes has at most 63 of a-z"),
    ],
)
def test_mistake_about_pods_is_named_with_its_line(
    tmp_path: Path, key: str, value: str, said: str
) -> None:
    file = tmp_path / "keys.yaml"
    file.write_text("".join(f"{name}: {text}\n" for name, text in {**PODS, key: value}.items()))
    with pytest.raises(LaunchFileError) as error:
        read_strict(file, KubernetesKeys)
    assert said in str(error.value)
