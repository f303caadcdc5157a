"""How many CPUs a process counts as its own."""

import os
from pathlib import Path

import pytest

from cudnn_sweep.workloads.hardware.cpus import usable_cpus


@pytest.mark.parametrize(
    ("groups", "files", "usable"),
    [
        ("", {}, 64),
        ("0::/\n", {"cpu.max": "max 100000"}, 64),
        ("0::/\n", {"cpu.max": "350000 100000"}, 4),
        ("0::/job/step\n", {"job/cpu.max": "800000 100000", "job/step/cpu.max": "max 100000"}, 8),
        ("0::/\n", {"cpu.max": "9900000 100000"}, 64),
        ("0::/\n", {"cpu.max": "1000 100000"}, 1),
        (
            "5:memory:/y\n4:cpu,cpuacct:/x\n3:cpuset:/y\n",
            {
                "cpu/x/cpu.cfs_quota_us": "200000",
                "cpu/x/cpu.cfs_period_us": "100000",
                "cpu/y/cpu.cfs_quota_us": "100000",
                "cpu/y/cpu.cfs_period_us": "100000",
            },
            2,
        ),
        ("4:cpu:/\n", {"cpu/cpu.cfs_quota_us": "200000"}, 64),
        ("0::/a:b\n", {"a:b/cpu.max": "300000 100000"}, 3),
        (
            "4:cpu,cpuacct:/\n",
            {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"},
            64,
        ),
    ],
)
def test_cpus_are_those_of_the_affinity_and_of_the_control_group(
    groups: str, files: dict[str, str], usable: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    ours = tmp_path / "cgroup"
    ours.write_text(groups)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert usable_cpus(tmp_path, ours) == usable
