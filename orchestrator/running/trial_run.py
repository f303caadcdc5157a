"""`--dry-run --try`: one short process of each cell, which finds most of what would fail in a sweep."""

from rich.console import Console

from cudnn_sweep.orchestrator.locks.sweep_lock import measuring_lock
from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.orchestrator.process.client import ForkServer
from cudnn_sweep.orchestrator.process.protocol import Request, TrialJob
from cudnn_sweep.orchestrator.recording.hopeless import cause
from cudnn_sweep.orchestrator.running.run_sweep import CELL_FAILED, DONE
from cudnn_sweep.orchestrator.showing.labels import cell_labels
from cudnn_sweep.orchestrator.showing.say import say, warn
from cudnn_sweep.workloads.cells.measurement import TrialRequest
from cudnn_sweep.workloads.survey import Survey
from cudnn_sweep.workloads.warnings import ADVICE, OF_THE_CODE

SHORT = {
    "cold_shapes": 3,
    "open_cold_shapes": 2,
    "warmup_s": 0.0,
    "warmup_limit_s": 0.0,
    "steady_budget_s": 0.01,
    "device_budget_s": 0.0,
    "open_steps": 2,
    "calibrate": False,
}


def try_cells(plan: Plan, machine: Survey, preload: tuple[str, ...], console: Console) -> int:
    """Nothing is stored. Returns the exit code: 4 where a cell's process did not end well."""
    names = cell_labels(trial.cell for trial in plan.trials)
    firsts = {trial.cell.cell_id: trial for trial in reversed(plan.trials)}
    failed: dict[tuple[str, str], list[str]] = {}
    messages: dict[tuple[str, str], str] = {}
    with (
        measuring_lock(machine.gpu_uuids or ["cpu"]),
        ForkServer(preload=preload, gpu_uuids=machine.gpu_uuids[:1]) as server,
    ):
        for trial in reversed(firsts.values()):
            request = TrialRequest(
                cell=trial.cell,
                config=trial.config,
                measure=plan.measure.model_copy(update=SHORT),
                seed=trial.seed,
                compute_cache=None,
            )
            limits = {"host_memory_limit_mib": plan.measure.host_memory_limit_mib}
            job = Request(job=TrialJob(trial=request), timeout_s=plan.measure.timeout_s, **limits)
            outcome = server.run(job)
            if outcome.status != "ok":
                key = cause(outcome.status, outcome.message or "")
                messages.setdefault(key, outcome.message or "")
                failed.setdefault(key, []).append(names[trial.cell.cell_id])
            measured = outcome.reply and outcome.reply.measured
            for name in (measured and measured.telemetry.warnings) or ():
                if name in OF_THE_CODE:
                    warn(console, f"{names[trial.cell.cell_id]}: {name}: {ADVICE[name]}")
    for key, cells in failed.items():
        say(console, f"\n{key[0]} in {len(cells)} of {len(firsts)} cells: {messages[key]}", "red")
        for cell in cells:
            say(console, f"  {cell}")
    if not failed:
        say(console, f"One short process of each of {len(firsts)} cells ended well.")
    return CELL_FAILED if failed else DONE
