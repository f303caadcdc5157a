"""`sweep advise`: should benchmark be on for this model, over so many steps, and what does it gain?"""

import json
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from cudnn_sweep.analysis.answering.advice import (
    DOES_NOT_FIT,
    FAILS,
    UNDECIDED,
    Advice,
    Freeze,
    RankPrediction,
    kernel_changes,
    stored_cells,
)
from cudnn_sweep.analysis.answering.answers import AnswerRow
from cudnn_sweep.analysis.asking.database import open_database
from cudnn_sweep.analysis.asking.settings import as_text, unusual_in
from cudnn_sweep.analysis.storing.location import REFERENCE
from cudnn_sweep.analysis.storing.store import Store, open_store
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.launching.one_step import LOOKING, is_step, plan_step, suite_of
from cudnn_sweep.orchestrator.launching.step_options import AdviseOptions
from cudnn_sweep.orchestrator.running.run_sweep import Place, run_sweep
from cudnn_sweep.orchestrator.showing.advice_text import Answered, Kept, advice_lines, answer_lines
from cudnn_sweep.orchestrator.showing.say import say
from cudnn_sweep.workloads.cells.config import CudnnConfig
from cudnn_sweep.workloads.cells.errata import read_file, text_of
from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.cells.suite import SuiteSpec, UntilDecided, WithoutGpu
from cudnn_sweep.workloads.records.row import BUNDLED
from cudnn_sweep.workloads.warnings import OF_THE_CODE

SUITE = "advise"
NETWORKS = "networks-*"  # the installed sweeps of whole networks
AT_MOST = 20  # blocks
DIGITS = 9  # of a number in JSON: sums in another order differ in the last ones
TIMED = ["steady_wall_ms", "status", "message", "warnings"]
STORED = "No GPU here, so nothing is measured: this is a stored measurement in {results}."
TIMED_ON_CPU = (
    "No GPU here: cuDNN's flags have no effect on a CPU, so only the time of the step is measured."
)


def advise(options: AdviseOptions, console: Console, place: Place, out: Console) -> int:
    """Measure, print the answer on `out`, and return the exit code.

    Without a GPU, the newest stored measurement of the step answers; if there is none, a step is timed on the CPU.
    `console` shows what goes on meanwhile.
    """
    if options.reference:
        return _from_reference(options, out)
    if options.from_store:
        return _from_store(options, out)
    suite = suite_to_compare(options, kept_rules(options.freeze))
    say(console, LOOKING.format(workload=options.workload))
    machine = place.look(suite)
    planned = plan_step(
        options, suite, machine, suite_name=SUITE, minutes=options.minutes, job=options.job
    )
    if machine.environment.device == "cuda" or options.on_any_device:
        gpu, minutes = machine.environment.gpu, f"{options.minutes:g} minutes"
        say(console, f"Measuring on {gpu} with benchmark off and on, for at most {minutes}.")
    elif _newest(open_store(options.location), options, on_gpu=True) is not None:
        say(console, STORED.format(results=options.location))
        return _from_store(options, out)
    else:
        say(console, TIMED_ON_CPU)
    ran = run_sweep(planned, place, console)
    answered = answered_of(options, ran.store, ran.session.sweep_id)
    code = ran.unless_stopped(code_of(answered))
    tell(options, answered, out)
    no_gpu = machine.environment.device != "cuda" and not options.on_any_device
    return ExitCode.NEEDS_GPU if no_gpu and code == ExitCode.CANNOT_TELL else code


def suite_to_compare(
    options: AdviseOptions, errata: str | None, float64: bool = False
) -> SuiteSpec:
    """Benchmark off and on, and off with these errata where they are given."""
    measure = MeasureSpec(
        reference_replicates=int(float64), logged_replicates=0, calibrate=False, device_budget_s=0.3
    )
    suite = suite_of(options, UntilDecided(until="decided", at_most=AT_MOST), measure)
    if errata is not None:
        configs = [*suite.configs, CudnnConfig(errata=errata)]
        suite = suite.model_copy(update={"configs": configs})
    if options.on_any_device:
        suite = suite.model_copy(update={"without_gpu": WithoutGpu()})
    return suite


def kept_rules(file: str | None) -> str | None:
    """A file's rules as a config has them. Raises SpecError."""
    try:
        return None if file is None else text_of(read_file(Path(file)))
    except ValueError as error:
        raise SpecError(str(error)) from None


def _from_store(options: AdviseOptions, out: Console) -> int:
    store = open_store(options.location)
    sweep_id = _newest(store, options)
    if sweep_id is None:
        raise SpecError(
            f"--from-store: found no sweep of {options.command()} in {options.location} that `sweep advise` measured; "
            "without --from-store it is measured now"
        )
    return tell(options, answered_of(options, store, sweep_id), out)


def _from_reference(options: AdviseOptions, out: Console) -> ExitCode:
    """Answer for each GPU model and input that was measured, with PyTorch's other settings."""
    wanted = {
        "workload": options.workload.removeprefix(BUNDLED),
        "direction": options.direction or "training",
        "regime": options.regime or "fixed",
        "precision": options.precision,
        "layout": options.layout,
        **({"input_shape": options.input[0]} if options.input else {}),
    }
    every = Advice.of(open_store(str(REFERENCE)), NETWORKS, **options.job.values())
    rows = [row for row in every if not unusual_in(row.other_settings)]
    found = [row for row in rows if wanted.items() <= vars(row).items()]
    if not found:
        fits = [row for row in rows if row.workload == wanted["workload"]]
        names = [*wanted][1:] if fits else ["workload"]
        there = {" ".join(str(getattr(row, name)) for name in names) for row in fits or rows}
        raise SpecError(
            f"--reference: found no {' '.join(wanted.values())}; there are {'; '.join(sorted(there))}"
        )
    asked = [row for row in found if row.asked]
    if options.json:
        say(out, json.dumps(_rounded(asked), indent=2))
    for row in [] if options.json else asked:
        same = (other for other in found if other.cell_id == row.cell_id and not other.asked)
        answered = Answered(
            sweep_id=NETWORKS,
            workload=options.workload,
            advice=row,
            other=next(same, None),
            times_ms=[row.baseline_ms],
            program=options.program,
            command=options.command(),
            where=[],
            input=row.input_shape,
        )
        title = f"{row.gpu}, {row.input_shape}"
        say(out, "\n".join(["", title, *answer_lines(answered)]).rstrip())
    decided = any(row.advice != UNDECIDED for row in asked)
    return ExitCode.FINE if decided else ExitCode.CANNOT_TELL


def _newest(store: Store, options: AdviseOptions, *, on_gpu: bool = False) -> str | None:
    """The newest sweep of this step, with the same input, regime, direction and arguments.

    One on a GPU, where there is one; `on_gpu`: no other.
    """
    cells = sorted(
        stored_cells(store, SUITE, options.workload), key=lambda each: each.device == "cpu"
    )
    steps = (each for each in cells if is_step(options, each))
    return next((each.sweep_id for each in steps if not on_gpu or each.device != "cpu"), None)


def tell(options: AdviseOptions, answered: Answered, out: Console) -> ExitCode:
    if options.json:
        say(out, json.dumps(_rounded(as_json(answered)), indent=2))
    else:
        say(out, "\n" + "\n".join(advice_lines(answered)).rstrip())
    return code_of(answered)


def answered_of(options: AdviseOptions, store: Store, sweep_id: str) -> Answered:
    rows = Advice.of(store, sweep_id, **options.job.values())
    asked = [row for row in rows if row.asked]
    other = [row for row in rows if not row.asked]
    most = max(asked, key=lambda row: row.blocks, default=None)
    beside = next((row for row in other if most and row.in_turns == most.in_turns), None)
    trials = store.snapshot(sweep_id).table(TIMED).to_pylist()
    with open_database(store, sweep_id) as database:
        kernels = kernel_changes(database, sweep_id) if most else []
    return Answered(
        kept=kept_choice(options, store, sweep_id, options.freeze, kept_rules(options.freeze)),
        sweep_id=sweep_id,
        advice=most,
        other=beside,
        kernels=kernels,
        ranks=RankPrediction.of(store, sweep_id, ranks=options.ranks) if options.ranks else [],
        times_ms=[row["steady_wall_ms"] for row in trials if row["steady_wall_ms"] is not None],
        failures=[(row["status"], row["message"]) for row in trials if row["message"]],
        warnings=[
            name for name in OF_THE_CODE if any(name in (row["warnings"] or ()) for row in trials)
        ],
        workload=options.workload,
        program=options.program,
        command=options.command(),
        where=options.where(),
        input=options.input[0] if options.input else None,
    )


def kept_choice(
    options: AdviseOptions, store: Store, sweep_id: str, file: str | None, errata: str | None
) -> Kept | None:
    """What the store says of a kept choice; None where the sweep does not have it."""
    if file is None or errata is None:
        return None
    contrast = {"field": "errata", "baseline": "null", "candidate": as_text(errata)}
    rows = Advice.of(store, sweep_id, **contrast, **options.job.values())
    measured = [freeze for freeze in Freeze.of(store, sweep_id) if freeze.errata == errata]
    asked = max((row for row in rows if row.asked), key=lambda row: row.blocks, default=None)
    if asked is None or not measured:
        return None
    return Kept(file=file, advice=asked, measured=measured[0])


def as_json(answered: Answered) -> dict[str, object]:
    """The rows of the question `advice`, and what stands beside them."""
    return {
        "sweep_id": answered.sweep_id,
        "advice": answered.said,
        "setting": answered.setting,
        "lines": answered.lines,
        "asked": answered.advice,
        "other_start": answered.other,
        "frozen": None if answered.kept is None else asdict(answered.kept),
        "kernels": answered.kernels,
        "ranks": answered.ranks,
        "step_times_ms": answered.times_ms,
        "messages": sorted({message for _, message in answered.failures}),
        "warnings": answered.warnings,
        "again": answered.again,
    }


def _rounded(value: object) -> object:
    if isinstance(value, AnswerRow):
        value = vars(value)
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list | tuple) else value


def code_of(answered: Answered) -> ExitCode:
    """Whether there is a decision, time was too short for one, or the model does not run."""
    if answered.fails:
        return ExitCode.DOES_NOT_RUN
    if answered.said == UNDECIDED:
        return ExitCode.CANNOT_TELL
    advice = answered.advice
    if advice is not None and advice.advice in (DOES_NOT_FIT, FAILS) and not advice.blocks:
        runs = advice.baseline_failed < advice.candidate_failed
        return ExitCode.FINE if runs else ExitCode.DOES_NOT_RUN
    return ExitCode.FINE
