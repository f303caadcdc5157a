from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import BaseModel

from cudnn_sweep.cluster.errors import LaunchFileError
from cudnn_sweep.cluster.launch_file import LaunchFile, read_launch_file

LOCAL = """\
cluster_name: lab
provider:
  type: local
  head_ip: 192.0.2.10
  worker_ips: [192.0.2.11]
"""


class Sweep(BaseModel):
    suite: str = "quick"
    replicates: int = 3
    address: str | None = None


Read = Callable[[str], LaunchFile[Sweep]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read_text(text: str) -> LaunchFile[Sweep]:
        file = tmp_path / "cluster.yaml"
        file.write_text(text)
        launch = read_launch_file(file, Sweep)
        assert file.read_text() == text
        return launch

    return read_text


@pytest.mark.parametrize("text", ["", "cluster_name: here", "metadata:", "metadata: {sweep: }"])
def test_file_without_sweep_is_the_default_on_this_machine(read: Read, text: str) -> None:
    launch = read(text)
    assert launch.sweep == Sweep()


def test_each_part_is_read_in_its_own_yaml(read: Read) -> None:
    own = "metadata: {sweep: {suite: on}, theirs: {flag: on}}\n"
    launch = read(LOCAL + "no_restart: off\n" + own)
    assert launch.sweep.suite == "on"
    assert launch.ray_part["no_restart"] is False
    assert launch.ray_part["metadata"] == {"sweep": {"suite": True}, "theirs": {"flag": True}}


@pytest.mark.parametrize("text", [LOCAL, "metadata: {sweep: {address: 'head:6379'}}"])
def test_cluster_without_its_extra_is_told_which(
    read: Read, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "cudnn_sweep.cluster.launch_file.CLUSTER_EXTRA", ("aiohttp", "not_installed_here")
    )
    with pytest.raises(LaunchFileError) as error:
        read(text)
    assert "not_installed_here is not installed: pip install 'cudnn-sweep[cluster]'" in str(
        error.value
    )


@pytest.mark.parametrize("text", ["", "metadata: {sweep: {address: }}", "metadata: {sweep: {}}"])
def test_a_launch_on_this_machine_needs_no_extra(
    read: Read, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cudnn_sweep.cluster.launch_file.CLUSTER_EXTRA", ("not_installed_here",))
    assert read(text).sweep.address is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("metadata: {sweep: {suite: quick}}\nsuit: 1\n", "2: suit: unknown key"),
        ("cluster_name: [1]\n", "1: cluster_name: found `.1.`, wanted text"),
        ("metadata: text\n", "metadata: "),
        (LOCAL + "max_workers: many\n", "max_workers: 'many' is not of type 'integer'"),
        (
            LOCAL + "no_restat: true\n",
            "no_restat: unknown key .did you mean `no_restart`.*Ray's schema",
        ),
        ("provider: {type: nowhere}\ncluster_name: lab\n", "type: found `nowhere`, allowed: "),
        ("metadata: {sweep: {suite: 2026-01-45}}\n", "YAML parser refuses the file"),
        (
            "base: &base {sweep: {suite: quick}}\nmetadata:\n  <<: *base\n",
            "comes through a merge key|unknown key",
        ),
    ],
)
def test_a_mistake_in_rays_part_is_named_with_its_key(read: Read, text: str, message: str) -> None:
    with pytest.raises(LaunchFileError, match=message):
        read(text)
