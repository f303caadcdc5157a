"""When a cluster is brought up anew or taken down, which nights are fetched, and what a head gets, made up."""

from contextlib import nullcontext
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.recording.recorder import Progress
from cudnn_sweep.orchestrator.remote import clusters, destinations, driver, job
from cudnn_sweep.orchestrator.remote.clusters import BroughtUpCluster
from cudnn_sweep.orchestrator.remote.destinations import tell_without_gpu
from cudnn_sweep.orchestrator.remote.driver import TheseNodes
from cudnn_sweep.orchestrator.remote.job import _take_records


class Known:
    """What is kept here of a cluster."""

    name = "lab"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.launch_file, self.token = folder / "cluster.yaml", folder / "token"

    def fetched(self, sent: Any) -> Path:
        return self.folder / f"{sent.job_id}.fetched"

    def sender(self) -> str:
        return "us"


class Launcher:
    """Ray's launcher, and whether the cluster answers without a token: before and after it came up."""

    TUNNEL_S = 1.0

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *is_open: bool | Exception) -> None:
        self.did: list[str] = []
        self._is_open = list(is_open)
        monkeypatch.setattr(clusters, "launcher", self)
        monkeypatch.setattr(clusters, "make_token", lambda _: None)
        monkeypatch.setattr(clusters, "Jobs", Mock())
        monkeypatch.setattr(clusters, "answers_anybody", self._answers)
        monkeypatch.setattr(clusters, "say", lambda *_: None)

    def _answers(self, _: str) -> bool:
        answer = self._is_open.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def tunnel(self, file: Path, **_: float) -> Any:
        return nullcontext("here")

    def secure(self, ray_part: Any, token: Path) -> dict[str, str]:
        return {"cluster_name": "lab"}

    def wait_for_head(self, *_: Any) -> None:
        pass

    def bring_up(self, *_: Path) -> None:
        self.did.append("up")

    def take_down(self, _: Path) -> None:
        self.did.append("down")

    def hosts_at_first(self, ray_part: dict[str, Any]) -> tuple[int, int | None]:
        return ray_part["hosts"], ray_part["gpus"]


def cluster(folder: Path, **ray_part: Any) -> BroughtUpCluster:
    made = object.__new__(BroughtUpCluster)
    sweep = SimpleNamespace(token=None, allow_unauthenticated=False)
    file: Any = SimpleNamespace(ray_part=ray_part, sweep=sweep)
    made.file, made.known = file, Known(folder)  # type: ignore[assignment]
    return made


@pytest.mark.parametrize(
    ("stored", "is_open", "did"),
    [
        (None, (False,), ["up"]),
        ("cluster_name: lab\n", (False,), []),
        ("cluster_name: lab\n", (ClusterError("gone"), False), ["up"]),
        ("cluster_name: lab\n", (True, False), ["up"]),
        ("cluster_name: other\n", (False,), ["up"]),
    ],
)
def test_a_cluster_that_runs_with_the_same_file_is_left_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    stored: str | None,
    is_open: tuple[Any, ...],
    did: list[str],
) -> None:
    made, launcher = cluster(tmp_path), Launcher(monkeypatch, *is_open)
    if stored is not None:
        made.known.launch_file.write_text(stored)
    made.make_ready(Mock())
    assert launcher.did == did
    assert made.known.launch_file.read_text() == "cluster_name: lab\n"


def test_a_cluster_that_answers_anybody_is_taken_down(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    launcher = Launcher(monkeypatch, True)
    with pytest.raises(ClusterError, match="answered without a token and was taken down"):
        cluster(tmp_path).make_ready(Mock())
    assert launcher.did == ["up", "down"]


@pytest.mark.parametrize(
    ("hosts", "gpus", "text"),
    [
        (1, None, "1 host, GPUs "),
        (3, 8, "3 hosts with 8 GPUs according to the launch file, GPU models "),
    ],
)
def test_a_clusters_size_is_what_its_file_states(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, hosts: int, gpus: int | None, text: str
) -> None:
    Launcher(monkeypatch)
    assert cluster(tmp_path, hosts=hosts, gpus=gpus)._size().startswith(text)


def test_jobs_go_only_to_a_cluster_that_was_brought_up_from_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Launcher(monkeypatch)
    made = cluster(tmp_path)
    with pytest.raises(ClusterError, match="lab was not brought up from here"), made.jobs():
        pass
    made.known.launch_file.touch()
    with made.jobs():
        pass


def test_a_named_token_must_be_a_file(tmp_path: Path) -> None:
    made = cluster(tmp_path)
    assert made._token() is None
    made.known.token.touch()
    assert made._token() == made.known.token
    named: Any = SimpleNamespace(sweep=SimpleNamespace(token=str(tmp_path / "own")))
    made.file = named
    with pytest.raises(SpecError, match=r"metadata.sweep.token: there is no file .*own"):
        made._token()
    (tmp_path / "own").touch()
    assert made._token() == tmp_path / "own"


TONIGHT = "night-2026-03-02-lab"


@pytest.mark.parametrize(
    ("night", "state", "outcome", "kept", "is_tonights"),
    [
        (TONIGHT, "RUNNING", None, False, True),
        (TONIGHT, "SUCCEEDED", "{}", True, True),
        (TONIGHT, "FAILED", None, False, False),
        ("night-2026-03-01-lab", "SUCCEEDED", "{}", True, False),
        ("night-2026-03-01-other", "SUCCEEDED", "{}", False, False),
    ],
)
def test_ended_nights_are_fetched_once_and_tonights_job_is_followed(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    night: str,
    state: str,
    outcome: str | None,
    kept: bool,
    is_tonights: bool,
) -> None:
    sent = SimpleNamespace(job_id="job", night=night)
    jobs: Any = SimpleNamespace(sent=lambda _: [sent], state=lambda _: (state, ""))
    ended = SimpleNamespace(outcome=outcome)
    monkeypatch.setattr(clusters, "fetch", lambda *_: SimpleNamespace(ended=ended))
    asked: Any = SimpleNamespace(name=SimpleNamespace(sweep_id=TONIGHT, launch="lab"))
    keeps: list[Any] = []
    made = cluster(tmp_path)

    def fetched() -> Any:
        return made._fetch_nights(jobs, asked, lambda *of: keeps.append(of))

    assert fetched() is (sent if is_tonights else None)
    assert keeps == [(night, outcome)] * kept
    has_ended = state != "RUNNING" and not night.endswith("other")
    assert made.known.fetched(sent).exists() is has_ended  # type: ignore[arg-type]
    if has_ended:
        assert fetched() is None
        assert len(keeps) == kept


def test_a_night_does_not_begin_while_another_one_runs(tmp_path: Path) -> None:
    sent = SimpleNamespace(job_id="job", night="night-2026-03-01-lab")
    jobs: Any = SimpleNamespace(sent=lambda _: [sent], state=lambda _: ("RUNNING", ""), url="here")
    asked: Any = SimpleNamespace(name=SimpleNamespace(sweep_id=TONIGHT, launch="lab"))
    with pytest.raises(Exception, match="night-2026-03-01-lab"):
        cluster(tmp_path)._fetch_nights(jobs, asked, Mock())


def test_the_head_gets_unfinished_sweeps_and_the_nights_since_a_date(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    results, work = tmp_path / "results", tmp_path / "work"
    states = {"done": True, "open": False}
    nights = [f"night-2026-03-0{day}-lab" for day in (1, 2, 3)] + ["night-2026-03-03-other"]
    for name in [*states, *nights]:
        (results / f"sweep={name}").mkdir(parents=True)
    store = SimpleNamespace(
        sweeps=lambda: [SimpleNamespace(sweep_id=n, finished=ended) for n, ended in states.items()],
        sweep_ids=lambda: [*states, *nights],
    )
    monkeypatch.setattr(job, "open_store", lambda _: store)

    def taken(night: Any, location: Path = results) -> set[str]:
        target = work / str(len(list(tmp_path.glob("work/*"))))
        target.mkdir(parents=True)
        request: Any = SimpleNamespace(sweep=SimpleNamespace(results=str(location)), night=night)
        _take_records(request, target)
        return {folder.name.partition("=")[2] for folder in target.iterdir()}

    since = SimpleNamespace(name=SimpleNamespace(launch="lab"), since=date(2026, 3, 2))
    assert taken(None) == {"open"}
    assert taken(since) == {"open", *nights[1:3]}
    assert taken(None, tmp_path / "none") == set()


def test_recorded_trials_and_a_sweeps_end_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [SimpleNamespace(ends_launch=False)] * 2 + [SimpleNamespace(ends_launch=True)]
    events: list[Any] = []
    monkeypatch.setattr(driver, "emit", events.append)
    monkeypatch.setattr(driver, "Recorded", lambda record: record)
    monkeypatch.setattr(driver, "Progressed", lambda **of: of)
    host: Any = SimpleNamespace(take=lambda: records, progress=lambda: Progress(stopped="full"))
    sweep: Any = SimpleNamespace(trials_recorded=5, ended=False, stopped=None)
    place = object.__new__(TheseNodes)
    place._sweeps = {}
    place._show(sweep, host)
    assert (sweep.trials_recorded, sweep.ended, sweep.stopped) == (7, True, "full")
    assert events[:3] == records


@pytest.mark.parametrize(
    ("few", "needs_cuda", "text"),
    [
        (3, False, "this only shows what a sweep does."),
        (1, False, "this only shows what a sweep does, in 1 block per cell instead of 3."),
        (3, True, "this is the plan for a machine of one slot."),
    ],
)
def test_a_run_without_a_gpu_says_that_it_is_a_demonstration(
    monkeypatch: pytest.MonkeyPatch, few: int, needs_cuda: bool, text: str
) -> None:
    said: list[str] = []
    monkeypatch.setattr(destinations, "say", lambda _, line: said.append(line))
    suite = SimpleNamespace(
        replicates=3, needs_cuda=needs_cuda, on=lambda _: SimpleNamespace(replicates=few)
    )

    def planned(device: str) -> Any:
        machine = SimpleNamespace(environment=SimpleNamespace(device=device))
        return SimpleNamespace(machine=machine, request=SimpleNamespace(suite=suite))

    tell_without_gpu(planned("cuda"), Mock())
    assert said == []
    tell_without_gpu(planned("cpu"), Mock())
    why = "but the suite needs one" if needs_cuda else "so cuDNN's flags have no effect"
    assert said == [f"No GPU here, {why}: {text}"]


@pytest.mark.parametrize(
    ("ranks", "refused"),
    [
        (["one_gpu"], None),
        (["one_gpu", "2_ranks"], "2_ranks"),
        (["4_ranks", "2_ranks"], "2_ranks, 4_ranks"),
    ],
)
def test_a_slot_of_a_cluster_has_one_gpu(
    monkeypatch: pytest.MonkeyPatch, ranks: list[str], refused: str | None
) -> None:
    monkeypatch.setattr(driver, "ONE_RANK", "one_gpu")
    place = object.__new__(TheseNodes)
    nodes: Any = [SimpleNamespace(machine="first"), SimpleNamespace(machine="second")]
    place._nodes = nodes
    suite: Any = SimpleNamespace(cells=[SimpleNamespace(ranks=ranks)])
    if refused is None:
        machine: Any = place.look(suite)
        assert machine == "first"
        return
    with pytest.raises(SpecError, match=f"ranks: found {refused}, allowed on a cluster: one_gpu"):
        place.look(suite)


@pytest.mark.parametrize(("gpus", "slots"), [(0, 1), (1, 1), (4, 4)])
def test_a_dry_run_here_is_for_a_slot_on_each_gpu(
    monkeypatch: pytest.MonkeyPatch, gpus: int, slots: int
) -> None:
    parts: list[tuple[int, bool]] = []
    planned = SimpleNamespace(machine=SimpleNamespace(gpus=["H200"] * gpus), chosen=None)

    def part(*of: Any, gpu: bool) -> None:
        parts.append((of[-1], gpu))

    monkeypatch.setattr(destinations, "plan_sweep", lambda *_: planned)
    monkeypatch.setattr(destinations, "tell_without_gpu", lambda *_: None)
    monkeypatch.setattr(destinations, "print_part", part)
    assert destinations.Here().show(Mock(), Mock()) == 0
    assert parts == [(slots, gpus > 0)]


def test_a_night_here_waits_for_its_minutes() -> None:
    night: Any = SimpleNamespace(keys=SimpleNamespace(wait_minutes=2.0))
    place: Any = destinations.Here().night(Mock(), night, Mock(), Mock())
    assert place._wait_s == 120.0
