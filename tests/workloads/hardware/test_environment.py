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


def test_variables_name_the_gpu_the_version_and_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "processor", lambda: "some processor")
    monkeypatch.setattr(environment, "our_version", lambda: "1.2")
    monkeypatch.setattr(environment, "our_commit", lambda: "abc")
    found = {}
    for given in ("", "mine"):
        for name in ("SWEEP_FAKE_GPU", "SWEEP_VERSION", "SWEEP_COMMIT"):
            monkeypatch.setenv(name, given)
        made = environment.capture_environment()
        found[given] = made.gpu, made.version, made.commit
        assert made.cpu_model == "some processor"
    assert found["mine"] == ("mine", "mine", "mine")
    if made.device == "cpu":
        assert found[""] == ("some processor", "1.2", "abc")
        assert (made.cudnn, made.gpu_uuid, made.driver) == (None, None, None)


def test_without_a_checkout_or_an_installation_both_are_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert environment.installed_version("no-such-package") is None
    monkeypatch.setattr(environment, "installed_version", lambda _: None)
    assert environment.our_version() == "unknown"
    monkeypatch.setattr(environment, "__file__", str(tmp_path / "a" / "b" / "environment.py"))
    assert environment.our_commit() is None
    (tmp_path / ".git").mkdir()
    assert environment.our_commit() is None, "git fails there"


def test_hashes_are_of_the_software_or_the_hardware_alone() -> None:
    one = environment.Environment(
        device="cpu",
        gpu="A",
        cuda=None,
        cudnn=None,
        torch="2",
        ray="2",
        python="3.11",
        os="Linux",
        host="vm",
        cpu_cores=2,
        version="1",
        commit=None,
    )
    software = {"torch", "cuda", "cudnn", "driver", "python", "ray", "version"}
    hardware = {"gpu", "gpu_memory_bytes", "mig_profile", "max_sm_clock_mhz", "power_limit_w"}
    for name in environment.Environment.__dataclass_fields__:
        other = replace(one, **{name: "other"})  # type: ignore[arg-type]
        assert (other.software_hash != one.software_hash) == (name in software)
        assert (other.env_hash != one.env_hash) == (name in hardware)
