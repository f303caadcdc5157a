"""What a measurement is stored with, of the machine that made it."""

import socket
from pathlib import Path

import pytest

from cudnn_sweep.workloads.hardware import environment


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
