"""What a driver on a cluster counts, runs and prints, of hosts and recorders that are made up."""

from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.orchestrator.planning.session import session_of
from cudnn_sweep.orchestrator.recording.recorder import Progress
from cudnn_sweep.orchestrator.remote import driver
from cudnn_sweep.orchestrator.remote.driver import TheseNodes, left_of, results_of
from cudnn_sweep.orchestrator.remote.job import HEAD_FOLDER, RECORDS
from tests.orchestrator.made_plan import made_plan


def node(name: str, gpus: int = 4) -> Any:
    return SimpleNamespace(node_id=name, address=f"host {name}", accelerators=gpus, machine=name)


NODES = [node("a"), node("b", 2)]


@pytest.mark.parametrize(
    ("alive", "left"),
    [({"a", "b"}, ["a", "b"]), ({"b"}, ["b"]), ({"c"}, ["a", "b"]), (set[str](), ["a", "b"])],
)
def test_nodes_that_are_gone_get_no_slot_unless_all_are(alive: set[str], left: list[str]) -> None:
    assert [each.node_id for each in left_of(NODES, alive)] == left


@pytest.mark.parametrize(
    ("ranks", "found"),
    [
        (["1_rank"], None),
        (["1_rank", ["1_rank"]], None),
        (["1_rank", "2_ranks"], "2_ranks"),
        ([["4_ranks", "1_rank"], "2_ranks"], "2_ranks, 4_ranks"),
    ],
)
def test_a_cluster_runs_trials_on_one_gpu(ranks: list[Any], found: str | None) -> None:
    suite: Any = SimpleNamespace(cells=[SimpleNamespace(ranks=each) for each in ranks])
    nodes = TheseNodes(NODES, Mock())
    if found is None:
        found_first: Any = nodes.look(suite)
        assert found_first == "a"
        return
    with pytest.raises(SpecError, match=f"ranks: found {found}, allowed on a cluster: 1_rank"):
        nodes.look(suite)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return made_plan(suite={"replicates": 2})


@pytest.mark.parametrize(("announced", "fails"), [(True, False), (False, False), (True, True)])
def test_records_and_progress_are_printed_until_the_last(
    monkeypatch: pytest.MonkeyPatch, plan: Plan, announced: bool, fails: bool
) -> None:
    events: list[Any] = []
    hosts: list[Any] = []
    taken = iter([[SimpleNamespace(ends_launch=False)] * 2, [SimpleNamespace(ends_launch=True)]])

    class Host:
        def __init__(self, session: Any, **of: Any) -> None:
            hosts.append((session, of["slots"]))
            self.recorder, self.ended = Mock(), False

        def run(self, folder: Path, budget_s: float | None) -> None:
            assert folder.is_dir() and budget_s == 7.0
            if fails:
                raise KeyError("odd")

        def take(self) -> list[Any]:
            return next(taken)

        def progress(self) -> Progress:
            return Progress(stopped="full")

        def finish(self, _: object) -> Progress:
            return Progress(statuses={"ok": 2})

    @contextmanager
    def now_and_then(show: Any, *, every_s: float) -> Any:
        show()
        yield

    for name, value in {
        "emit": events.append,
        "Host": Host,
        "alive_nodes": lambda: {"a"},
        "share_of": lambda _, count: count,
        "now_and_then": now_and_then,
        "Recorded": lambda **of: ("record", of["record"].ends_launch),
        "Progressed": lambda **of: {key: vars_of(each) for key, each in of["sweeps"].items()},
        "Started": lambda **of: ("started", of["reason"]),
    }.items():
        monkeypatch.setattr(driver, name, value)
    nodes, session = TheseNodes(NODES, Mock()), session_of(plan, "june", Path("there"))
    if announced:
        nodes.announce(session, "resuming", Mock())
    with nodes.opened(Mock(), Mock(), Mock()) as run:
        if fails:
            with pytest.raises(KeyError):
                run(session, 7.0)
        else:
            assert run(session, 7.0).statuses == {"ok": 2}
    lines = [event for event in events if isinstance(event, tuple)]
    started = [event for event in lines if event[0] == "started"]
    assert started == [("started", "resuming" if announced else "")]
    ((ran, slots),) = hosts
    assert (slots.count, slots.nodes, ran.folder) == (4, {"a": "host a"}, Path())
    records = [event for event in lines if event[0] == "record"]
    assert [ends for _, ends in records] == [False, False, True]
    last = events[-1]["launch-june"]
    assert last == (len(plan.trials), 2, True, "full")
    nodes.announce(session, "again", Mock())
    assert nodes._sweeps["launch-june"].trials_planned == 2 * len(plan.trials)


def vars_of(sweep: Any) -> tuple[int, int, bool, str | None]:
    return sweep.trials_planned, sweep.trials_recorded, sweep.ended, sweep.stopped


@pytest.mark.parametrize("has_records", [True, False])
def test_results_of_a_head_are_a_folder_in_its_home_with_the_senders_records(
    monkeypatch: pytest.MonkeyPatch, here: Path, has_records: bool
) -> None:
    monkeypatch.setattr(Path, "home", lambda: here / "home")
    if has_records:
        (here / RECORDS / "sweep=june").mkdir(parents=True)
    of: Any = SimpleNamespace(sweep=SimpleNamespace(results="results"))
    found = Path(results_of(of))
    assert found == here / "home" / HEAD_FOLDER / "results"
    assert (found / "sweep=june").is_dir() is has_records
    url: Any = SimpleNamespace(sweep=SimpleNamespace(results="s3://bucket/sweeps"))
    assert results_of(url) == "s3://bucket/sweeps"
