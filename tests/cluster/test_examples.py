"""The launch files to copy: they read, Ray takes them, and a cluster that they start asks for a token."""

import os
import stat
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from cudnn_sweep.cluster.jobs.jobs import make_token
from cudnn_sweep.cluster.jobs.launcher import (
    MARK,
    REMOTE_TOKEN,
    START_COMMANDS,
    hosts_at_first,
    secure,
)
from cudnn_sweep.cluster.launch_file import check_ray_part, read_launch_file
from cudnn_sweep.cluster.strict_yaml import read_document
from cudnn_sweep.orchestrator.planning.spec import SweepSpec, choose_suite
from cudnn_sweep.orchestrator.remote.clusters import BroughtUpCluster
from cudnn_sweep.orchestrator.remote.destinations import destination_of

ROOT = Path(__file__).parents[2]
LAUNCHED = {
    file.stem: file
    for file in sorted(ROOT.glob("cluster/examples/*.yaml"))
    if "\nprovider:" in file.read_text()
}
CLOUDS = ("aws", "azure", "gcp")
STATED = {"lab": (3, None), "aws": (5, 4), "azure": (3, 2), "gcp": (3, 2)}
"""Hosts that each starts, and the GPUs that it says they have."""
TELLS = '#!/bin/sh\n[ "$1" = start ] && echo "$RAY_AUTH_MODE $RAY_AUTH_TOKEN_PATH $*"\ntrue\n'


def test_there_is_one_for_each_kind_of_cluster() -> None:
    assert set(LAUNCHED) >= {"lab", *CLOUDS}


@pytest.mark.parametrize("name", LAUNCHED)
def test_example_reads_and_ray_takes_it(name: str) -> None:
    launch = read_launch_file(LAUNCHED[name], SweepSpec)
    assert isinstance(destination_of(launch), BroughtUpCluster)
    assert choose_suite(launch.sweep, None)[1].cells
    assert hosts_at_first(launch.ray_part) == STATED[name]


@pytest.mark.parametrize("name", LAUNCHED)
def test_every_ray_that_it_starts_has_the_token(name: str, tmp_path: Path) -> None:
    """Its start commands as a node runs them, with a `ray` that says what it was given."""
    launch = read_launch_file(LAUNCHED[name], SweepSpec)
    token = tmp_path / "here" / "token"
    make_token(token)
    token.with_name(MARK).touch()
    mine = {"~/data": str(LAUNCHED[name])}
    config = secure({**launch.ray_part, "file_mounts": mine}, token)
    assert mine.items() <= config["file_mounts"].items()
    check_ray_part(read_document(LAUNCHED[name]), config)

    for target, source in config["file_mounts"].items():
        copied = Path(target.replace("~", str(tmp_path)))
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_bytes(Path(source).read_bytes())
    (tmp_path / "ray").write_text(TELLS)
    (tmp_path / "ray").chmod(0o755)
    theirs = {"HOME": str(tmp_path), "RAY_HEAD_IP": "192.0.2.10"}
    there = {**theirs, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for key in START_COMMANDS:
        done = [
            subprocess.run(["bash", "-c", each], env=there, check=True, capture_output=True)
            for each in config[key]
        ]
        mode, path, *words = b"".join(each.stdout for each in done).decode().split()
        assert (mode, path) == ("token", REMOTE_TOKEN.replace("~", str(tmp_path)))
        assert Path(path).read_text() == token.read_text()
        assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600
        assert "--dashboard-host=0.0.0.0" not in words


@pytest.mark.parametrize("name", CLOUDS)
def test_machines_of_a_cloud_get_all_that_the_package_needs(name: str) -> None:
    launch = read_launch_file(LAUNCHED[name], SweepSpec)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    commands = launch.ray_part["setup_commands"]
    assert isinstance(commands, list)
    installed = {
        word.strip("'").partition("=")[0].partition(">")[0].partition("[")[0]
        for command in commands
        for word in command.split()
    }
    assert {Requirement(line).name for line in project["dependencies"]} <= installed
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    (ray,) = [pin for pin in pins if pin.startswith("ray==")]
    assert f"'ray[default,tune]{ray.removeprefix('ray')}'" in " ".join(commands)
    docker = launch.ray_part["docker"]
    assert isinstance(docker, dict)
    assert f"ray:{ray.removeprefix('ray==')}-" in docker["image"]
