"""When this machine is looked at again or refused, how many slots it has, and when a stop is an error."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from cudnn_sweep.orchestrator.errors import NeedsGpuError, UnfinishedError
from cudnn_sweep.orchestrator.recording.recorder import Progress
from cudnn_sweep.orchestrator.running import run_sweep, this_machine
from cudnn_sweep.orchestrator.running.run_sweep import Ran, tell_stopped
from cudnn_sweep.orchestrator.running.this_machine import ThisMachine
from cudnn_sweep.orchestrator.slots import tune_host
from cudnn_sweep.workloads.cells.config import Config


def machine(*gpus: str, device: str = "cuda", no_cuda: str = "") -> Any:
    return SimpleNamespace(
        environment=SimpleNamespace(device=device),
        gpus=list(gpus),
        gpu_uuids=list(gpus),
        no_cuda=no_cuda,
    )


class Looks:
    """A machine that is surveyed, and how."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, found: Any, chosen: Any) -> None:
        self.surveys: list[tuple[tuple[str, ...], bool]] = []
        self._found = found
        monkeypatch.setattr(ThisMachine, "_survey", self._survey)
        monkeypatch.setattr(this_machine, "gpus_asked", lambda *_: chosen)

    def _survey(self, suite: Any, uuids: Any = (), *, needs_cuda: bool = False) -> Any:
        self.surveys.append((tuple(uuids), needs_cuda))
        return self._found


def look(place: ThisMachine, *, suite_needs: bool = False, needs: bool = False) -> Any:
    suite: Any = SimpleNamespace(needs_cuda=suite_needs, gpus=None)
    return place.look(suite, needs_cuda=needs)


@pytest.mark.parametrize(
    ("suite_needs", "needs", "plans_only", "needs_cuda"),
    [
        (False, False, False, False),
        (True, False, False, True),
        (True, False, True, False),
        (False, True, False, True),
        (False, True, True, True),
    ],
)
def test_a_survey_may_end_early_without_cuda_if_that_is_refused(
    monkeypatch: pytest.MonkeyPatch,
    suite_needs: bool,
    needs: bool,
    plans_only: bool,
    needs_cuda: bool,
) -> None:
    one = machine("H200")
    looks = Looks(monkeypatch, one, one)
    place = ThisMachine(plans_only=plans_only)
    assert look(place, suite_needs=suite_needs, needs=needs) is one
    assert looks.surveys == [((), needs_cuda)]


@pytest.mark.parametrize(("no_cuda", "why"), [("", "torch finds none here"), ("old driver",) * 2])
def test_a_suite_for_gpus_is_refused_without_one_unless_it_is_only_planned(
    monkeypatch: pytest.MonkeyPatch, no_cuda: str, why: str
) -> None:
    none = machine(device="cpu", no_cuda=no_cuda)
    Looks(monkeypatch, none, none)
    with pytest.raises(NeedsGpuError, match=rf"needs CUDA \(needs_cuda: true\); {why}"):
        look(ThisMachine(), suite_needs=True)
    assert look(ThisMachine(plans_only=True), suite_needs=True) is none
    assert look(ThisMachine()) is none


@pytest.mark.parametrize(
    ("chosen", "again"),
    [(["H200"], False), (["H200", "H200"], False), (["A100"], True), (["A100", "H200"], True)],
)
def test_another_model_than_that_of_the_first_gpu_is_surveyed_anew(
    monkeypatch: pytest.MonkeyPatch, chosen: list[str], again: bool
) -> None:
    looks = Looks(monkeypatch, machine("H200", "A100"), machine(*chosen))
    look(ThisMachine())
    assert looks.surveys[1:] == [(tuple(chosen), False)] * again


@pytest.mark.parametrize("trials", [(), ("trial",)])
def test_models_are_called_once_by_the_process_that_surveyed(
    monkeypatch: pytest.MonkeyPatch, trials: Any
) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(this_machine, "free_devices", lambda *_: nullcontext())

    def call(*of: Any) -> tuple[str, ...]:
        calls.append(of)
        return ()

    monkeypatch.setattr(this_machine, "call_models", call)
    place = ThisMachine()
    place.call(trials, machine("H200"), Mock())
    assert calls == [], "nothing was surveyed"
    server: Any = Mock()
    place._server = server
    place.call(trials, machine("H200"), Mock())
    assert calls == [(server, trials)] * bool(trials)


@pytest.mark.parametrize(
    ("gpus", "ranks", "count", "of_ray"),
    [(0, [1], 1, 1), (4, [1], 4, 4), (4, [1, 2], 2, 4), (3, [2], 1, 3), (1, [2], 1, 1)],
)
def test_a_slot_has_as_many_gpus_as_a_trial_has_ranks(
    monkeypatch: pytest.MonkeyPatch, gpus: int, ranks: list[int], count: int, of_ray: int
) -> None:
    opened: dict[str, Any] = {}

    class Stop(Exception):
        pass

    def host(session: Any, *, results: str, slots: Any) -> None:
        opened["slots"] = slots
        raise Stop

    def local_ray(**of: Any) -> Any:
        opened["ray"] = of["slots"]
        return nullcontext(Path())

    monkeypatch.setattr(this_machine, "free_devices", lambda *_: nullcontext())
    monkeypatch.setattr("cudnn_sweep.cluster.local.local_ray.local_ray", local_ray)
    monkeypatch.setattr(tune_host, "Host", host)
    trials = [SimpleNamespace(trial_id="t", cell=SimpleNamespace(rank_count=of)) for of in ranks]
    session: Any = SimpleNamespace(plan=SimpleNamespace(trials=trials), own=Mock())
    names = [f"H200-{number}" for number in range(gpus)]
    with ThisMachine().opened(Mock(), machine(*names), Mock()) as run, pytest.raises(Stop):
        run(session, None)
    slots = opened["slots"]
    assert opened["ray"] == of_ray
    assert (slots.count, slots.gpu, slots.ranks) == (count, gpus > 0, max(ranks))


@pytest.mark.parametrize(
    ("gpus", "configs", "is_early"),
    [
        (["H200"], [Config(), Config(benchmark=True)], True),
        ([], [Config()], True),
        (["H200", "H200"], [Config()], False),
        (["H200"], [Config(), Config(code="base")], False),
        (["H200"], [], False),
    ],
)
def test_a_server_starts_beside_ray_if_one_slot_needs_one_server(
    monkeypatch: pytest.MonkeyPatch, gpus: list[str], configs: list[Config], is_early: bool
) -> None:
    begun: list[Any] = []

    def start(*of: Any) -> AbstractContextManager[str]:
        begun.append(of)
        return nullcontext("its address")

    monkeypatch.setattr(this_machine, "early_server", start)
    trials = [SimpleNamespace(software="", config=config, twin=0) for config in configs]
    plan, folder = SimpleNamespace(trials=trials), Path("/of/the/user")
    session: Any = SimpleNamespace(sweep_id="s", plan=plan, folder=folder, preload=("timm",))
    place, surveyed = ThisMachine(), machine(*gpus)
    for announced, early in ((False, False), (True, is_early), (False, False)):
        begun.clear()
        found: Any = []
        if announced:  # not before a night's fresh trials
            place.announce(session, "a new sweep", Mock())
        with place._early_server(surveyed, found, {"MARK": "folder"}):
            assert found == ["its address"] * early
        assert begun == [(folder, ("timm",), surveyed.gpu_uuids, {"MARK": "folder"})] * early


def test_a_slot_starts_its_server_if_none_can_start_early(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object) -> None:
        raise PermissionError(1, "too nice")

    monkeypatch.setattr(this_machine, "early_server", start)
    plan = SimpleNamespace(trials=[SimpleNamespace(software="", config=Config(), twin=0)])
    session: Any = SimpleNamespace(sweep_id="s", plan=plan, folder=Path(), preload=())
    place, found = ThisMachine(), list[Any]()
    place.announce(session, "a new sweep", Mock())
    with place._early_server(machine("H200"), found, {}):
        assert found == []


@pytest.mark.parametrize(
    ("stopped", "decided", "stored", "fails"),
    [
        (None, False, [], False),
        ("disk full", True, ["trial"], False),
        ("disk full", False, ["trial"], True),
        ("disk full", True, [], True),
        ("disk full", False, [], True),
    ],
)
def test_a_stopped_sweep_is_an_error_unless_it_is_decided(
    stopped: str | None, decided: bool, stored: list[str], fails: bool
) -> None:
    ran: Any = SimpleNamespace(progress=Progress(stopped=stopped), stored=stored)
    if not fails:
        Ran.check_not_stopped(ran, is_decided=decided)
        return
    with pytest.raises(UnfinishedError, match="stopped: disk full; run the command again"):
        Ran.check_not_stopped(ran, is_decided=decided)


@pytest.mark.parametrize(
    ("progress", "lines"),
    [
        (Progress(held=3, kept_in={"/refuge": 3}), []),
        (Progress(stopped="full"), ["Stopped: full"]),
        (Progress(stopped="full", held=3, kept_in={"/a": 2, "/b": 1}), ["Stopped: full"]),
        (
            Progress(stopped="full", held=3, kept_in={"/a": 2}),
            ["Stopped: full", "1 finished trials could not be stored anywhere and are lost."],
        ),
    ],
)
def test_records_that_are_lost_are_counted(
    monkeypatch: pytest.MonkeyPatch, progress: Progress, lines: list[str]
) -> None:
    said: list[str] = []
    monkeypatch.setattr(run_sweep, "say", lambda _, text, *__: said.append(text.strip()))
    tell_stopped(Mock(location="results"), progress, Mock())
    kept = [line for line in said if "are kept in" in line]
    assert [line for line in said if line not in kept] == lines
    assert len(kept) == (len(progress.kept_in) if progress.stopped else 0)


def test_folders_of_launches_that_recorded_nothing_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of this very plan: their lock was the one that is held now."""
    here = ["new.plan", "stored.plan", "stored-shard-1.plan", "killed.plan", "killed.other"]
    for name in here:
        (tmp_path / name).mkdir()
    session = SimpleNamespace(
        sweep_id="new", scratch=tmp_path / "new.plan", lock_name="plan", reason="new"
    )

    class Announced(Exception):
        pass

    place = Mock()
    place.announce.side_effect = Announced
    for name, value in {
        "open_results": lambda *_: SimpleNamespace(location="", sweep_ids=lambda: ["stored"]),
        "sweep_lock": lambda *_: nullcontext(),
        "choose_sweep": lambda *_: session,
        "OpenSweep": lambda **_: Mock(),
    }.items():
        monkeypatch.setattr(run_sweep, name, value)
    with pytest.raises(Announced):
        run_sweep.run_sweep(Mock(), place, Mock())
    assert {folder.name for folder in tmp_path.iterdir()} == {*here} - {"killed.plan"}
