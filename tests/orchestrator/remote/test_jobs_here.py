"""What is sent to a cluster, what becomes of a job's output, and which records lack here, of made-up jobs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.jobs.jobs import SentJob
from cudnn_sweep.orchestrator.errors import SpecError, UnfinishedError
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.planning.options import LaunchOptions, NightOptions
from cudnn_sweep.orchestrator.planning.session import session_of
from cudnn_sweep.orchestrator.planning.spec import NightName
from cudnn_sweep.orchestrator.process.protocol import Outcome
from cudnn_sweep.orchestrator.recording.record import Attempt, make_record
from cudnn_sweep.orchestrator.recording.recorder import Progress
from cudnn_sweep.orchestrator.remote import follow as following
from cudnn_sweep.orchestrator.remote import job as jobs
from cudnn_sweep.orchestrator.remote.follow import (
    LAST_LINES,
    LOST_S,
    Follower,
    follow,
    missing_here,
    status_here,
    status_of,
)
from cudnn_sweep.orchestrator.remote.job import (
    MARK,
    Ended,
    JobRequest,
    Progressed,
    Recorded,
    SweepStatus,
    from_line,
    take_own_code,
    to_line,
)
from cudnn_sweep.workloads.hardware.environment import Environment
from tests.orchestrator.blank import blank
from tests.orchestrator.made_plan import made_plan

NOW = datetime(2026, 6, 1, 12, 30, tzinfo=UTC)


def record(sweep_id: str = "june", *, place: int = 0, ends: bool = False) -> Any:
    plan = made_plan(suite={"replicates": 3})
    outcome = Outcome(started_at=NOW, ended_at=NOW, process_s=1.0)
    session = session_of(plan, sweep_id, Path())
    trial = plan.trials[place]
    attempt = Attempt(slot="s", attempt=1, attempt_id=f"{sweep_id}-{place}")
    made = make_record(session, trial, outcome, blank(Environment, device="cpu"), attempt)
    return replace(made, ends_launch=ends)


def told(*sweeps: SweepStatus) -> str:
    by_launch = {f"launch-{sweep.sweep_id}": sweep for sweep in sweeps}
    return to_line(Progressed(progress=Progress(), sweeps=by_launch))


class Head:
    """A head whose job has printed these lines."""

    def __init__(self, *lines: str, state: str = "RUNNING", message: str = "m") -> None:
        self.lines, self.asked = list(lines), list[int]()
        self._state = state, message

    def output(self, _: str) -> str:
        return "\n".join(self.lines)

    def last_lines(self, _: str, count: int) -> str:
        self.asked.append(count)
        return "\n".join(self.lines[-count:])

    def state(self, _: str) -> tuple[str, str]:
        return self._state


JOB = SentJob(job_id="job", results="results", sweep="sweep launch")


@pytest.mark.parametrize(
    ("line", "is_event"),
    [
        (to_line(Ended(exit_code=0)), True),
        ("plain output", False),
        (to_line(Ended(exit_code=0))[:-5], False),
        (MARK + "{}", False),
        (to_line(Ended(exit_code=0)).removeprefix(MARK), False),
    ],
)
def test_a_line_is_an_event_if_it_is_marked_and_whole(line: str, is_event: bool) -> None:
    assert (from_line(line) is not None) is is_event


@pytest.mark.parametrize(
    ("kept", "sweep", "missing"),
    [
        ([], SweepStatus(sweep_id="june", trials_planned=3, trials_recorded=2), 2),
        ([0], SweepStatus(sweep_id="june", trials_planned=3, trials_recorded=2), 1),
        ([0, 1], SweepStatus(sweep_id="june", trials_planned=3, trials_recorded=2), 0),
        ([0, 1], SweepStatus(sweep_id="june", trials_recorded=2, ended=True), 1),
        ([0, -1], SweepStatus(sweep_id="june", trials_recorded=2, ended=True), 0),
        ([0], SweepStatus(sweep_id="june", trials_recorded=2, ended=True), 1),
    ],
)
@pytest.mark.usefixtures("here")
def test_records_and_the_mark_of_the_end_that_lack_here_are_counted(
    kept: list[int], sweep: SweepStatus, missing: int
) -> None:
    """A place of -1: the second trial, with the mark."""
    store = open_store("results")
    for place in kept:
        store.write(record(place=abs(place), ends=place < 0))
    store.write(record("other"))
    head: Any = Head(told(sweep))
    assert missing_here(head, JOB) == missing
    assert missing_here(head, replace(JOB, results="s3://bucket/sweeps")) == 0


def test_the_last_progress_counts_and_older_output_is_read_only_without_one() -> None:
    old, new = (SweepStatus(sweep_id="june", trials_recorded=count) for count in (1, 2))
    recent = Head(told(old), told(new), "plain")
    any_head: Any = recent
    status = status_of(any_head, JOB)
    assert [sweep.trials_recorded for sweep in status.sweeps] == [2]
    assert recent.asked == [LAST_LINES]
    long_ago: Any = Head(told(old), *["plain"] * LAST_LINES, message="first\nsecond")
    status = status_of(long_ago, JOB)
    assert [sweep.trials_recorded for sweep in status.sweeps] == [1]
    assert (status.state, status.message) == ("running", "first")
    silent: Any = Head("plain")
    assert status_of(silent, JOB).sweeps == ()
    stopped = replace(new, stopped="full")
    assert str(stopped).endswith("2 of 0 trials recorded\nno new trial starts: full")


@pytest.mark.parametrize(
    ("results", "is_here", "copies"),
    [("results", False, True), ("results", True, False), ("s3://bucket/sweeps", False, False)],
)
@pytest.mark.usefixtures("here")
def test_a_record_is_copied_once_and_again_with_the_mark(
    monkeypatch: pytest.MonkeyPatch, results: str, is_here: bool, copies: bool
) -> None:
    written: list[bool] = []
    store = SimpleNamespace(
        stored_trials=lambda _: {},
        write=lambda each: written.append(each.ends_launch),
        compact_many=lambda: None,
        try_to_compact=lambda _: None,
    )
    monkeypatch.setattr(following, "open_store", lambda _: store)
    follower = Follower(results, Console(quiet=True), is_here=is_here)
    for ends in (False, False, True, True, False):
        follower.take(to_line(Recorded(record=record(ends=ends))))
    assert written == ([False, True] if copies else [])
    assert len(follower.new) == copies


@pytest.mark.parametrize(
    ("ended", "error"),
    [
        (None, UnfinishedError),
        (Ended(exit_code=5, reason="none"), SpecError),
        (Ended(exit_code=3), None),
    ],
)
@pytest.mark.usefixtures("here")
def test_a_job_ends_with_its_last_event(ended: Ended | None, error: type[Exception] | None) -> None:
    follower = Follower("results", Console(quiet=True))
    if ended is not None:
        follower.take(to_line(ended))
    if error is None:
        assert follower.report("") == ended
        return
    with pytest.raises(error) as raised:
        follower.report("job ended")
    code = getattr(raised.value, "exit_code", None)
    assert code == (ExitCode.UNFINISHED if ended is None else ExitCode.NEEDS_GPU)


class Connections:
    """Connections, each of which yields lines and then breaks, or ends with the job's state."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *of: tuple[list[str], str | None]) -> None:
        self.now, self.taken, self.times = 100.0, list[str](), 0
        self._of = of
        monkeypatch.setattr(following, "monotonic", lambda: self.now)
        monkeypatch.setattr(following, "sleep", self._sleep)
        monkeypatch.setattr(Follower, "__init__", lambda *_: None)
        monkeypatch.setattr(Follower, "take", self._take)
        monkeypatch.setattr(Follower, "close", lambda _: None)
        monkeypatch.setattr(Follower, "report", lambda _, text: ("report", text))
        monkeypatch.setattr(Follower, "ended", None, raising=False)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def _take(self, line: str) -> None:
        self.taken.append(line)
        if line == "end":
            Follower.ended = "event"  # type: ignore[assignment]

    @contextmanager
    def connect(self) -> Iterator[Any]:
        lines, state = self._of[min(self.times, len(self._of) - 1)]
        self.times += 1

        def follow(_: str) -> Iterator[str]:
            yield from lines
            if state is None:
                raise ClusterError("lost")

        yield SimpleNamespace(
            follow=follow, state=lambda _: (state, "Traceback\nValueError: odd\n")
        )


@pytest.mark.parametrize(
    ("of", "taken", "times", "report"),
    [
        ([(["a", "end"], None)], ["a", "end"], 1, ""),
        ([(["a"], None), (["a", "b", "end"], None)], ["a", "b", "end"], 2, ""),
        ([(["a"], "FAILED")], ["a"], 1, "job job ended as FAILED: ValueError: odd"),
        ([(["a"], "RUNNING"), (["a", "b"], "STOPPED")], ["a", "b"], 2, "job job ended as STOPPED"),
    ],
)
def test_a_job_is_followed_through_breaks_and_no_line_is_taken_twice(
    monkeypatch: pytest.MonkeyPatch,
    of: list[tuple[list[str], str | None]],
    taken: list[str],
    times: int,
    report: str,
) -> None:
    head = Connections(monkeypatch, *of)
    found: Any = follow(head.connect, JOB, Console(quiet=True))
    assert found[1].startswith(report)
    assert (head.taken, head.times) == (taken, times)


def test_following_ends_after_a_while_without_a_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    head = Connections(monkeypatch, ([], None))
    with pytest.raises(ClusterError, match="lost"):
        follow(head.connect, JOB, Console(quiet=True))
    assert head.now == 100 + LOST_S
    lines = [([str(number) for number in range(count)], None) for count in range(1, 200)]
    again = Connections(monkeypatch, *lines, (["end"] * 200, None))
    follow(again.connect, JOB, Console(quiet=True))
    assert again.now > 100 + LOST_S, "each new line shows that it is reached"


@pytest.mark.usefixtures("here")
def test_this_machines_status_is_of_the_newest_record(monkeypatch: pytest.MonkeyPatch) -> None:
    none = status_here("results")
    assert (none.state, none.message) == ("not running", "No trial is recorded in results")
    assert none.sweeps == ()
    store = open_store("results")
    store.write(record("june", place=0))
    late = record("july", place=1)
    store.write(replace(late, ended_at=NOW.replace(hour=13)))
    monkeypatch.setattr(following, "stored_names", lambda *_: {late.cell_id: "noop 8"})
    found = status_here("results")
    assert [sweep.sweep_id for sweep in found.sweeps] == ["july"]
    assert found.message == "Last trial: noop 8, ended 2026-06-01 13:30:00 UTC"
    monkeypatch.setattr(following, "holder_of", lambda _: "sweep launch")
    busy = status_here("results")
    assert (busy.state, busy.message) == ("running", f"By sweep launch. {found.message}")


def request(
    *names: str, preload: tuple[str, ...] = (), loss: str = "own", inputs: Any = None
) -> Any:
    model = SimpleNamespace(loss=loss, inputs=inputs)
    suite = SimpleNamespace(cells=[SimpleNamespace(model=model)], names=list(names))
    return SimpleNamespace(suite=suite, preload=preload)


@pytest.fixture
def take(monkeypatch: pytest.MonkeyPatch, here: Path) -> Callable[..., list[str]]:
    monkeypatch.setattr(jobs, "workload_names", lambda suite: list(suite.names))
    for file in ("nets.py", "lib/layers.py", "package/__init__.py", "mine.py"):
        (here / file).parent.mkdir(exist_ok=True)
        (here / file).touch()

    def taken(*names: str, **of: Any) -> list[str]:
        work = here / "work"
        work.mkdir()
        take_own_code(request(*names, **of), work)
        return sorted(str(file.relative_to(work)) for file in work.rglob("*.py"))

    return taken


@pytest.mark.parametrize(
    ("names", "of", "files"),
    [
        (["noop"], {}, []),
        (["nets.py:Net", "lib/layers.py:Net"], {}, ["lib/layers.py", "nets.py"]),
        (["package.models:Net"], {}, ["package/__init__.py"]),
        (["mine:Net"], {}, ["mine.py"]),
        (["torchvision.models:resnet50"], {}, []),
        (["noop"], {"loss": "nets.py:loss"}, ["nets.py"]),
        (["noop"], {"inputs": "nets.py:inputs"}, ["nets.py"]),
        (["noop"], {"inputs": [{"shape": [1]}]}, []),
        (["noop"], {"preload": ("package.models", "json")}, ["package/__init__.py"]),
    ],
)
def test_the_users_own_files_and_modules_are_sent(
    take: Callable[..., list[str]], names: list[str], of: dict[str, Any], files: list[str]
) -> None:
    assert take(*names, **of) == files


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gone.py:Net", "gone.py: there is no such file"),
        ("../nets.py:Net", "must lie in the current folder"),
        ("/tmp/nets.py:Net", "must lie in the current folder"),
    ],
)
def test_a_file_that_a_cluster_cannot_get_is_refused(
    take: Callable[..., list[str]], name: str, message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        take(name)


def night_of(**of: Any) -> Any:
    name = NightName(date=date(2026, 6, 10), launch="lab")
    usual: dict[str, Any] = {"options": NightOptions(program="sweep"), "name": name}
    return SimpleNamespace(**usual | {"since": date(2026, 6, 5)} | of)


def test_a_job_of_a_night_is_resumed_by_its_date() -> None:
    launch: Any = SimpleNamespace(options=LaunchOptions(program="sweep"))
    plain: Any = JobRequest(sweep=launch)
    night: Any = JobRequest(sweep=launch, night=night_of())
    assert plain.driver.endswith("orchestrator.remote.driver")
    assert night.driver.endswith("orchestrator.nightly.driver")
    assert plain.command.startswith("sweep launch")
    assert night.command == "sweep nightly --night 2026-06-10"


@pytest.mark.parametrize(
    ("night", "taken"),
    [
        (None, ["sweep=june"]),
        (night_of(), ["nightly/lab/told.json", "sweep=june", "sweep=night-2026-06-05-lab"]),
    ],
)
def test_a_head_gets_unfinished_sweeps_and_the_nights_since_a_date(
    monkeypatch: pytest.MonkeyPatch, here: Path, night: Any, taken: list[str]
) -> None:
    ids = ["june", "july", "night-2026-06-04-lab", "night-2026-06-05-lab", "night-2026-06-06-other"]
    for sweep_id in ids:
        (here / f"results/sweep={sweep_id}").mkdir(parents=True)
    (here / "results/nightly/lab").mkdir(parents=True)
    (here / "results/nightly/lab/told.json").touch()
    states = [SimpleNamespace(sweep_id=each, finished=each != "june") for each in ids]
    store = SimpleNamespace(sweeps=lambda: states, sweep_ids=lambda: ids)
    monkeypatch.setattr(jobs, "open_store", lambda _: store)
    for results in ("results", "gone", "s3://bucket/sweeps"):
        target = here / "to" / results.partition(":")[0]
        of: Any = SimpleNamespace(sweep=SimpleNamespace(results=results), night=night)
        jobs._take_records(of, target)
        found = [file for file in target.rglob("*") if file.is_file() or "=" in file.name]
        names = sorted(str(file.relative_to(target)) for file in found)
        assert names == (taken if results == "results" else [])
