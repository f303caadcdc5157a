"""A cluster's jobs: the list that is kept here, and what a dashboard may answer."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.reach.jobs import KnownCluster, SentJob

SENT = """
import sys
from cudnn_sweep.cluster.reach.jobs import KnownCluster, SentJob
for number in range(20):
    KnownCluster("c").remember(SentJob(job_id=f"{sys.argv[1]}-{number}", results="r", command="c"))
"""


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KnownCluster:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return KnownCluster("c")


@pytest.fixture
def file(known: KnownCluster) -> Path:
    """The list, with two jobs."""
    for name in ("one", "two"):
        known.remember(SentJob(job_id=name, results="r", command="sweep launch", sweep_id="night"))
    return known.launch_file.with_name("jobs.json")


def test_no_bit_of_the_list_is_silent(known: KnownCluster, file: Path) -> None:
    whole, jobs = file.read_bytes(), known.jobs()
    silent = []
    for place in range(len(whole)):
        for bit in range(8):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
            try:
                found = known.jobs()
            except ClusterError as error:
                assert str(file) in str(error)
            else:
                silent += [(place, bit)] if found != jobs else []
    assert not silent


@pytest.mark.parametrize("text", ["", "[", '{"crc32": 1}', "[1]", '[{"job_id": 1}]', "\udcff"])
def test_bad_list_is_named(known: KnownCluster, file: Path, text: str) -> None:
    file.write_bytes(os.fsencode(text))
    with pytest.raises(ClusterError, match="cannot be read .*restore it") as caught:
        known.job()
    assert str(file) in str(caught.value)


def test_list_of_earlier_versions_is_read(known: KnownCluster, file: Path) -> None:
    file.write_text(json.dumps([{"job_id": "old", "results": "r", "command": "c"}]))
    assert known.job() == SentJob(job_id="old", results="r", command="c")


def test_two_launches_at_once_are_both_remembered(known: KnownCluster, file: Path) -> None:
    both = [subprocess.Popen([sys.executable, "-c", SENT, name]) for name in "ab"]
    assert [each.wait(60) for each in both] == [0, 0]
    wanted = {f"{name}-{number}" for name in "ab" for number in range(20)} | {"one", "two"}
    assert {job.job_id for job in known.jobs()} == wanted
