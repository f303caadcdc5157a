"""What `sweep nightly` and the commands of a cluster do, of nights and jobs that are made up."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from cudnn_sweep.orchestrator.cli import failing
from cudnn_sweep.orchestrator.planning.options import LaunchOptions, NightOptions

launching: Any = import_module("cudnn_sweep.orchestrator.cli.launch")  # the package has its command
pytestmark = pytest.mark.usefixtures("here")


@pytest.mark.parametrize(
    ("options", "did"),
    [
        ({}, ["watchdog", "night text", "left 3"]),
        ({"json": True}, ["watchdog", "night json", "left 3"]),
        ({"dry_run": True}, ["night text", "left 3"]),
        ({"pin": "2026-06-01"}, ["pinned 2026-06-01"]),
        ({"unpin": True}, ["pinned None"]),
        ({"accept": "conv"}, ["accepted conv"]),
    ],
)
def test_a_night_has_a_watchdog_if_it_runs(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], did: list[str]
) -> None:
    done: list[str] = []
    night = import_module("cudnn_sweep.orchestrator.nightly.night")
    request = import_module("cudnn_sweep.orchestrator.nightly.request")

    def run(of: NightOptions, *_: object) -> int:
        done.append(f"night {of.format}")
        return 3

    def pin(_: object, first: date | None) -> str:
        return done.append(f"pinned {first}") or "line"  # type: ignore[func-returns-value]

    def accept(_: object, target: str, *__: object) -> str:
        return done.append(f"accepted {target}") or "line"  # type: ignore[func-returns-value]

    monkeypatch.setattr(launching, "start_watchdog", lambda: done.append("watchdog"))
    monkeypatch.setattr(failing, "leave", lambda code: done.append(f"left {code}"))
    monkeypatch.setattr(night, "run_night", run)
    monkeypatch.setattr(request, "pin_baseline", pin)
    monkeypatch.setattr(request, "accept_change", accept)
    launching.nightly(NightOptions(**options))
    assert done == did


@pytest.mark.parametrize(
    ("options", "note", "did"),
    [
        ({}, "a note", ["watchdog", "said a note", "ran own.yaml in kept", "left 6"]),
        ({}, "", ["watchdog", "ran own.yaml in kept", "left 6"]),
        ({"dry_run": True}, "", ["ran own.yaml in kept", "left 6"]),
    ],
)
def test_a_launch_says_what_a_default_decided(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], note: str, did: list[str]
) -> None:
    done: list[str] = []
    spec = import_module("cudnn_sweep.orchestrator.planning.spec")
    destinations = import_module("cudnn_sweep.orchestrator.remote.destinations")
    say = import_module("cudnn_sweep.orchestrator.terminal.say")

    def run(of: LaunchOptions, _: object) -> int:
        done.append(f"ran {of.suite} in {of.results_asked}")
        return 6

    monkeypatch.setattr(launching, "start_watchdog", lambda: done.append("watchdog"))
    monkeypatch.setattr(failing, "leave", lambda code: done.append(f"left {code}"))
    monkeypatch.setattr(spec, "asked_file", lambda *_: (None, "own.yaml", note))
    monkeypatch.setattr(spec, "results_of_the_launch_file", lambda: "kept")
    monkeypatch.setattr(destinations, "launch", run)
    monkeypatch.setattr(say, "say", lambda _, text: done.append(f"said {text}"))
    launching.launch(LaunchOptions(**options))
    assert done == did


def test_a_launch_prints_its_plan_or_json() -> None:
    with pytest.raises(typer.BadParameter, match="--json cannot be combined with --dry-run"):
        launching.launch(LaunchOptions(json=True, dry_run=True))


class Jobs:
    def __init__(self, state: str, missing: int = 0) -> None:
        self.state_, self.stopped, self.missing = state, list[str](), missing

    def state(self, _: str) -> tuple[str, str]:
        return self.state_, "message"

    def stop(self, job_id: str) -> None:
        self.stopped.append(job_id)

    def sent(self, _: object) -> list[str]:
        return ["job", "job"]


@pytest.mark.parametrize(
    ("state", "stopped", "text"),
    [
        ("RUNNING", ["last"], "Requested the stop of last. To resume the sweep, run: sweep launch"),
        ("PENDING", ["last"], "Requested the stop of last"),
        ("SUCCEEDED", [], "last has ended already: succeeded."),
        ("FAILED", [], "last has ended already: failed."),
        ("STOPPED", [], "last has ended already: stopped."),
    ],
)
def test_only_a_job_that_runs_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    state: str,
    stopped: list[str],
    text: str,
) -> None:
    jobs = Jobs(state)

    @contextmanager
    def connected(_: Path) -> Iterator[Any]:
        yield None, jobs, SimpleNamespace(job_id="last", sweep="sweep launch")

    monkeypatch.setattr(launching, "_connected", connected)
    launching.stop(Path("c.yaml"))
    assert jobs.stopped == stopped
    assert text in capsys.readouterr().out


def test_the_last_job_that_was_sent_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    destinations = import_module("cudnn_sweep.orchestrator.remote.destinations")

    @contextmanager
    def jobs() -> Iterator[str]:
        yield "jobs"

    running = SimpleNamespace(jobs=jobs, sent=lambda _: ["first", "second", "last"])
    monkeypatch.setattr(destinations, "launch_file", lambda file: file)
    monkeypatch.setattr(destinations, "cluster_of", lambda _: running)
    with launching._connected(Path("c.yaml")) as found:
        assert found == (running, "jobs", "last")


@pytest.mark.parametrize(("outcome", "lines"), [("", 0), ("outcome", 1)])
def test_who_follows_a_night_learns_how_to_see_its_outcome(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], outcome: str, lines: int
) -> None:
    follow = import_module("cudnn_sweep.orchestrator.remote.follow")
    left: list[int] = []
    report = SimpleNamespace(outcome=outcome, exit_code=5)

    @contextmanager
    def connected(_: Path) -> Iterator[Any]:
        yield SimpleNamespace(jobs=None), None, SimpleNamespace(sweep="sweep nightly")

    monkeypatch.setattr(launching, "_connected", connected)
    monkeypatch.setattr(follow, "follow", lambda *_: report)
    monkeypatch.setattr(failing, "leave", left.append)
    launching.attach(Path("c.yaml"))
    assert capsys.readouterr().out.count("To see the night's outcome: sweep nightly") == lines
    assert left == [5]
