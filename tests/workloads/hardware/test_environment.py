"""What a measurement is stored with, of the machine that made it."""

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from cudnn_sweep.workloads.hardware import environment
from cudnn_sweep.workloads.records.measured import Ran


def test_tritons_version_is_stored_and_leaves_the_softwares_hash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A night of which each series met new software would alert of nothing."""
    hashes = []
    for found in ("3.5.0", "3.6.0"):
        monkeypatch.setattr(environment, "version", lambda name, found=found: found)
        monkeypatch.setenv("SWEEP_VERSION", "1")
        assert environment.installed_version("triton") == found
        hashes.append(replace(environment.capture_environment(), ray="2").software_hash)
    assert hashes[0] == hashes[1] and "triton" in Ran.__dataclass_fields__


def test_hosts_of_one_name_differ_by_their_boot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "vm")
    monkeypatch.setattr(environment, "BOOT_ID", tmp_path / "boot_id")
    assert environment.host_name() == "vm"
    names = []
    for boot in ("evening", "morning", "evening"):
        environment.BOOT_ID.write_text(boot)
        names.append(environment.host_name())
    assert names[0] == names[2] != names[1] and names[0].startswith("vm-")
