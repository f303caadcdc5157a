"""Checks whether this machine is ready to measure."""

import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from time import monotonic

from cudnn_sweep.analysis.results.min_effect import MIN_EFFECT
from cudnn_sweep.analysis.results.verdicts import Verdict
from cudnn_sweep.analysis.store.schema import RunRecord
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.analysis.words import clock, percent
from cudnn_sweep.cluster.errors import LocalRayError
from cudnn_sweep.orchestrator.doctor.checks import (
    Check,
    check_compiler,
    check_gpus,
    check_storage,
    ok,
    problem,
    warning,
)
from cudnn_sweep.orchestrator.errors import ServerError, SweepBusyError
from cudnn_sweep.orchestrator.locks.sweep_lock import measuring_lock
from cudnn_sweep.orchestrator.planning.plan import Plan, make_plan
from cudnn_sweep.orchestrator.planning.session import session_of
from cudnn_sweep.orchestrator.process.client import ForkServer, survey
from cudnn_sweep.orchestrator.slots.slot import ForkedSlot
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.expand import WorkloadFacts, expand_cells
from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.cells.suite import BatchByDevice, CellAxes, SuiteSpec
from cudnn_sweep.workloads.hardware.cpus import usable_cpus
from cudnn_sweep.workloads.hardware.environment import processor
from cudnn_sweep.workloads.hardware.monitor import MonitorKind
from cudnn_sweep.workloads.survey import Survey
from cudnn_sweep.workloads.warnings import ADVICE

MOST_PAIRS = 1000  # more than any time limit allows
# A step takes 0.8 ms on an H200, which is not CPU-bound, and 6 ms on two CPU cores.
CELL = CellAxes(
    workload="conv",
    problem="tutorials/rgb256",
    direction="forward",
    batch=BatchByDevice(cuda=64, cpu=1),
)
FACTS = {"conv": WorkloadFacts(directions=("forward",), varies=(), input_shape=None)}
MANY = 100  # highest number of replicates that a message suggests


def check_pairs(machine: Survey, telemetry: MonitorKind, seconds: float) -> Iterator[Check]:
    """Measure A/A pairs on the first GPU or the CPU for `seconds`, and yield their checks."""
    try:
        with (
            measuring_lock(machine.gpu_uuids[:1] or ["cpu"]),
            tempfile.TemporaryDirectory(prefix="sweep-doctor-") as folder,
        ):
            records, verdicts = _measure(_plan(machine, telemetry), Path(folder), seconds)
    except SweepBusyError as error:
        yield warning("self-test", f"left out: {error}", "run this again when that sweep has ended")
    except ServerError as error:
        yield problem("self-test", str(error), "the output of the fork server is printed above")
    else:
        pairs = [check for verdict in verdicts for check in check_pair(verdict)]
        yield from _self_test(records, pairs)


def _plan(machine: Survey, telemetry: MonitorKind) -> Plan:
    suite = SuiteSpec(
        cells=[CELL],
        configs=[Config()],
        replicates=MOST_PAIRS,
        twin_every=1,
        measure=MeasureSpec(
            warmup_s=0.4,
            warmup_limit_s=0.8,
            steady_budget_s=0.4,
            device_budget_s=0.4,
            reference_replicates=0,
            logged_replicates=0,
            telemetry=telemetry,
            timeout_s=60.0,
        ),
    )
    where = machine.environment
    cells = expand_cells(suite, FACTS, device=where.device, gpu=where.gpu)
    return make_plan("self-test", suite, cells)


def _measure(plan: Plan, folder: Path, seconds: float) -> tuple[list[RunRecord], list[Verdict]]:
    """Measure pairs until `seconds` have passed or a trial fails."""
    store = open_store(str(folder / "results"))
    session = session_of(plan, "self-test", folder)
    records: list[RunRecord] = []
    with closing(ForkedSlot.open(session, "doctor")) as slot:
        began = monotonic()
        for _, pair in plan.blocks():
            records += slot.measure(pair, lambda _: 1)
            if monotonic() - began > seconds or any(r.status != "ok" for r in records[-2:]):
                break
    for record in records:
        store.write(record)
    twins = {"field": "twin", "baseline": "0", "candidate": "1"}
    return records, Verdict.of(store, **twins, min_effect=MIN_EFFECT)


def _self_test(records: list[RunRecord], pairs: list[Check]) -> Iterator[Check]:
    failed = next((record for record in records if record.status != "ok"), None)
    if failed is not None:
        end = f"a trial ended with {failed.status}: {failed.message or 'no message'}"
        yield problem("self-test", end, "fix this first: every trial here would end like this")
    yield from pairs
    if not pairs and failed is None:
        no_pair = "no pair can be judged: the GPU was shared or throttled in each"
        yield warning("self-test", no_pair, "fix the warnings below, and run this again")
    for name, advice in ADVICE.items():
        if trials := sum(name in (record.warnings or ()) for record in records):
            yield warning("self-test, GPU", f"{name} in {trials} of {len(records)} trials", advice)


def check_pair(seen: Verdict) -> Iterator[Check]:
    """Yield checks that identical configs do not differ in wall time and in device time."""
    if seen.ratio is not None:
        ends = seen.ratio, seen.ratio_low, seen.ratio_high
        yield _compared("wall", seen.blocks, *ends, seen.wall_statistical_verdict)
    if seen.device_ratio is not None:
        ends = seen.device_ratio, seen.device_ratio_low, seen.device_ratio_high
        yield _compared("device", seen.blocks, *ends, seen.device_statistical_verdict)


def _compared(
    clock: str, pairs: int, ratio: float, low: float | None, high: float | None, verdict: str | None
) -> Check:
    name = f"self-test, {clock}"
    apart = f"two identical configs differ by {percent(abs(ratio - 1), 1)}"
    if pairs < 2 or low is None or high is None:
        single = f"{apart} in a single pair, too few to judge"
        return warning(name, single, "run this again with more --seconds")
    interval = f"(95% interval {percent(low - 1, 1, '+')} to {percent(high - 1, 1, '+')})"
    pair, effect = f"{apart} {interval} over {pairs} pairs: ", percent(MIN_EFFECT)
    if verdict == "equivalent":
        return ok(name, f"{pair}differences of {effect} can be detected here")
    if verdict == "inconclusive":
        # the width of an interval falls with the square root of the number of pairs
        times = math.log(high / low) / 2 / math.log1p(MIN_EFFECT)
        needed = math.ceil(pairs * max(times**2, 2.0))
        return warning(
            name,
            f"{pair}differences of {effect} cannot be detected here",
            "end other programs on this machine and run this again; otherwise a sweep needs "
            + (f"about `replicates: {needed}`" if needed <= MANY else f"over {MANY} replicates"),
        )
    return problem(
        name,
        f"{pair}more than chance explains, although nothing differs",
        "find what changes from process to process (other programs, clocks, memory that runs out) "
        "and run this again; until then trust no verdict of this machine",
    )


def look_at_this_machine() -> Survey:
    """Survey torch and CUDA in another process, because this process must not import torch."""
    with ForkServer(survey_only=True) as server:
        return survey(server, [])


def examine(
    results: str, self_test_s: float, telemetry: MonitorKind = "nvml", *, quick: bool = False
) -> Iterator[Check]:
    """Yield each check as soon as it is done. Do not start Ray or measure if `quick` is set."""
    yield ok("CPU", f"{processor()}, {usable_cpus()} of {os.cpu_count()} cores")
    machine: Survey | None = None
    try:
        machine = look_at_this_machine()
    except ServerError as error:
        advice = "check that `python -c 'import torch; torch.zeros(1)'` works in this environment"
        yield problem("torch", str(error), advice)
    else:
        where = machine.environment
        yield ok("torch", f"{where.torch}, Python {where.python}")
        yield from check_gpus(machine, telemetry)
        yield check_compiler(machine)
    yield from check_storage(results)
    yield _ray(quick)
    if machine is not None and not quick:
        yield from check_pairs(machine, telemetry, self_test_s)


def _ray(quick: bool) -> Check:
    installed = version("ray")
    if quick:
        return ok("Ray", f"{installed}; not started (--quick)")
    from cudnn_sweep.cluster.local.local_ray import probe_ray

    try:
        took = clock(probe_ray())
    except LocalRayError as error:
        advice = "check that no firewall blocks 127.0.0.1 and that TMPDIR has room, then try again"
        return problem("Ray", f"{installed}: {error}", advice)
    return ok("Ray", f"{installed}; started, ran a task and ended in {took}")
