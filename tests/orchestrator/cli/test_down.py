"""When `sweep cluster down` ends a cluster, and when it refuses to."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.jobs import launcher
from cudnn_sweep.orchestrator.remote import destinations, follow
from cudnn_sweep.orchestrator.remote.clusters import BroughtUpCluster

launch = import_module(
    "cudnn_sweep.orchestrator.cli.launch"
)  # the package has a function of this name
FILE = Path("cluster.yaml")


class Cluster(BroughtUpCluster):
    def __init__(self, sent: int, file: Path) -> None:
        file.touch()
        self.known: Any = SimpleNamespace(sender=lambda: "me", launch_file=file)
        self.asked: list[str] = []
        self._sent_jobs = sent

    @contextmanager
    def jobs(self) -> Iterator[Any]:
        def sent(sender: str) -> list[int]:
            self.asked.append(sender)
            return list(range(self._sent_jobs))

        yield SimpleNamespace(sent=sent)


@pytest.fixture
def taken_down(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    done: list[Path] = []
    monkeypatch.setattr(launcher, "take_down", done.append)
    monkeypatch.setattr(follow, "missing_here", lambda jobs, job: 1)
    monkeypatch.setattr(destinations, "launch_file", lambda file: file)
    return done


def test_a_cluster_from_elsewhere_stays(
    monkeypatch: pytest.MonkeyPatch, taken_down: list[Path]
) -> None:
    monkeypatch.setattr(destinations, "cluster_of", lambda _: SimpleNamespace())
    with pytest.raises(ClusterError, match="joins a cluster that was not launched from here"):
        launch.down(FILE, yes=True)
    assert not taken_down


def test_records_that_only_the_head_has_keep_it_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken_down: list[Path]
) -> None:
    """Unless they are given up, which asks no job."""
    copy = tmp_path / "copy.yaml"
    cluster = Cluster(sent=3, file=copy)
    monkeypatch.setattr(destinations, "cluster_of", lambda _: cluster)
    with pytest.raises(ClusterError, match="3 records are only on the head"):
        launch.down(FILE, yes=True)
    assert cluster.asked == ["me"] and not taken_down
    launch.down(FILE, yes=True, discard=True)
    assert cluster.asked == ["me"] and taken_down == [copy] and not copy.exists()
    monkeypatch.setattr(destinations, "cluster_of", lambda _: Cluster(sent=1, file=copy))
    with pytest.raises(ClusterError, match="1 records"):
        launch.down(FILE, yes=True)
    monkeypatch.setattr(destinations, "cluster_of", lambda _: Cluster(sent=0, file=copy))
    launch.down(FILE, yes=True)
    assert taken_down == [copy, copy]
