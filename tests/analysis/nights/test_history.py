"""What is read of the nights that are stored."""

from datetime import timedelta

import pytest

from cudnn_sweep.analysis.nights.history import (
    HARDWARE,
    MACHINE,
    SOFTWARE_AND_COMMIT,
    _night,
    differences,
    read_history,
)
from cudnn_sweep.analysis.nights.series import Change
from cudnn_sweep.analysis.store.store import Store
from tests.analysis.conftest import MIDNIGHT, make_record


def test_each_night_knows_which_code_of_a_users_own_it_ran(store: Store) -> None:
    """Most of its processes; a night that does not know is passed over; each cell has its own."""
    nights: dict[int, list[str | None]] = {
        1: ["old", "old"],
        2: [None, None],
        3: ["old", "new", "new"],
    }
    for day, hashes in nights.items():
        for place, code in enumerate(hashes):
            sweep = {"sweep_id": f"night-2026-11-0{day}-lab", "plan_trials": 2 * len(hashes)}
            for cell in ({"cell_id": "mine", "workload_hash": code}, {}):
                name = f"{day}-{place}-{len(cell)}"
                store.write(make_record(trial_id=name, attempt_id=name, **sweep, **cell))
    history = read_history(store, "lab", "night-2026-11-03-lab", [])
    assert history is not None
    keys = {series.key.cell_id: series.key for series in history.series}
    mine = keys.pop("mine")
    (bundled,) = keys.values()
    assert history.workload_change(mine, 0) == (None, "old")
    assert history.workload_change(mine, 1) == ("old", None)
    assert history.workload_change(mine, 2) == ("old", "new")
    assert history.workload_change(bundled, 2) == (None, None)
    assert history.changes() == (Change(part="workload", before="old", now="new"),)


@pytest.mark.parametrize(
    ("planned", "followed", "missing"),
    [
        (1, {("kept", "false")}, []),
        (4, {("kept", "false"), ("kept", "true"), ("gone", "false")}, ["gone"]),
    ],
)
def test_what_the_suite_has_no_more_is_followed_no_more(
    store: Store, planned: int, followed: set[tuple[str, str]], missing: list[str]
) -> None:
    """A night of which every trial is recorded tells; of one with lost trials they are missing."""
    before = [("kept", False), ("kept", True), ("gone", False)]
    for day, configs in {1: before, 2: before, 3: before[:1]}.items():
        for place, (cell_id, benchmark) in enumerate(configs):
            store.write(
                make_record(
                    sweep_id=f"night-2026-11-0{day}-lab",
                    plan_trials=planned if day == 3 else len(before),
                    position=planned - 1 if day == 3 else place,
                    trial_id=f"{day}-{place}",
                    attempt_id=f"{day}-{place}",
                    cell_id=cell_id,
                    benchmark=benchmark,
                )
            )
    history = read_history(store, "lab", "night-2026-11-03-lab", [])
    assert history is not None
    keys = {series.key for series in history.series if series.key.metric == "failure"}
    assert {(key.cell_id, key.settings.removeprefix("benchmark=")) for key in keys} == followed
    lacking = [
        series.key.cell_id for series in history.series if series.points[-1].value == "missing"
    ]
    assert lacking == missing


def test_gpu_hours_are_those_of_each_gpu_from_its_first_trial_to_its_last(store: Store) -> None:
    """Of the night and its fresh trials, whose processes may overlap; a CPU costs none."""
    night, fresh = "night-2026-11-02-night-lab", "confirm-2026-11-02-night-lab"
    spans = [
        ("night-2026-11-01-night-lab", "cuda", "GPU-a", 0, 600),
        (night, "cuda", "GPU-a", 0, 60),
        (night, "cuda", "GPU-a", 30, 90),
        (night, "cuda", "GPU-b", 0, 30),
        (fresh, "cuda", "GPU-a", 120, 150),
        (night, "cpu", "host/0", 0, 600),
    ]
    for place, (sweep_id, device, slot, first, last) in enumerate(spans):
        of_gpu = {"sweep_id": sweep_id, "device": device, "slot": slot}
        times = [MIDNIGHT + timedelta(minutes=each) for each in (first, last)]
        named = {"trial_id": f"{place}", "attempt_id": f"{place}", "launch_id": sweep_id}
        row = make_record(started_at=times[0], ended_at=times[1], **of_gpu, **named)
        store.write(row)
    history = read_history(store, "night-lab", night, [])
    assert history is not None
    assert history.gpu_hours == pytest.approx(2.5)


def test_each_night_knows_its_machines_and_how_quick_they_were(store: Store) -> None:
    """Each precision beside its own usual calibration; rows without a processor are of schema 3."""
    for day, (uuid, cpu, share) in enumerate(
        [("GPU-a", None, 1.0), ("GPU-a", "EPYC", 1.0), ("GPU-b", "EPYC", 0.9)], 1
    ):
        for precision, tflops in (("tf32", 400.0), ("bf16", 800.0)):
            store.write(
                make_record(
                    sweep_id=f"night-2026-11-0{day}-lab",
                    trial_id=f"{day}-{precision}",
                    attempt_id=f"{day}-{precision}",
                    precision=precision,
                    gpu_uuid=uuid,
                    cpu_model=cpu,
                    calibration_matmul_tflops=tflops * share,
                    calibration_copy_gbps=None,
                )
            )
    history = read_history(store, "lab", "night-2026-11-03-lab", [])
    assert history is not None
    (machine,) = history.machines
    assert (machine.gpu_uuid, machine.cpu_model, machine.trials) == ("GPU-b", "EPYC", 2)
    assert machine.matmul == pytest.approx(0.9)
    assert machine.copy is None
    first, second, third = history.nights
    assert differences(first.parts, second.parts, MACHINE) == ()
    moved = Change(part="gpu_uuid", before="GPU-a", now="GPU-b")
    assert differences(second.parts, third.parts, MACHINE) == (moved,)
    walls = [series for series in history.series if series.key.metric == "steady_wall"]
    assert [point.gpu_uuid for point in walls[0].points] == ["GPU-a", "GPU-a", "GPU-b"]


def test_a_night_of_two_softwares_is_one_and_each_hardware_has_its_usual_one() -> None:
    same = dict.fromkeys((*HARDWARE, *SOFTWARE_AND_COMMIT), "same")
    kinds = [("lab", "old", 10, 4), ("lab", "new", 20, 12), ("other", "old", 5, 3)]
    rows = [
        same
        | {"night": "night-2026-11-02-lab", "env_hash": hardware, "software_hash": software}
        | {"torch": software, "planned": 10 + reached, "reached": reached, "recorded": recorded}
        | {"in_turns": software == "new"}
        for hardware, software, reached, recorded in kinds
    ]
    beside = rows[0] | {"night": "night-2026-11-03-lab", "reached": 99, "recorded": 99}
    hosts = [
        {"night": rows[0]["night"], **dict.fromkeys(MACHINE, host)} for host in ("b", "a", None)
    ]
    night = _night("night-2026-11-02-lab", [*rows, beside], hosts)
    assert (night.planned, night.reached, night.recorded) == (30, 20, 19)
    assert night.softwares == {"lab": "new", "other": "old"}
    assert (night.parts["torch"], night.parts["driver"]) == ("new, old", "same")
    assert {night.parts[name] for name in MACHINE} == {", a, b"}
    assert night.in_turns
