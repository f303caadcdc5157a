"""`sweep advise`: should benchmark be on for this model, over so many steps, and what is the gain?"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.engine.settings import as_text, unusual_in
from cudnn_sweep.analysis.results.advice import (
    DOES_NOT_FIT,
    FAILS,
    UNDECIDED,
    Advice,
    Freeze,
    RankPrediction,
    kernel_changes,
    stored_cells,
)
from cudnn_sweep.analysis.store.location import REFERENCE
from cudnn_sweep.analysis.store.store import Store, open_store
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.running.run_sweep import Place, run_sweep
from cudnn_sweep.orchestrator.steps.one_step import LOOKING, UNTIL, is_step, plan_step, suite_of
from cudnn_sweep.orchestrator.steps.step_options import AdviseOptions
from cudnn_sweep.orchestrator.terminal.advice_text import Answered, Kept, advice_lines, answer_lines
from cudnn_sweep.orchestrator.terminal.say import say
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.errata import read_file, text_of
from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.cells.suite import SuiteSpec
from cudnn_sweep.workloads.records.row import BUNDLED
from cudnn_sweep.workloads.warnings import OF_THE_CODE

SUITE = "advise"
NETWORKS = "networks-*"  # the installed sweeps of whole networks
DIGITS = 9  # of a number in JSON: sums in another order differ in the last ones
TIMED = ["steady_wall_ms", "status", "message", "warnings"]
TIMED_ON_CPU = (
    "No GPU here: cuDNN's flags have no effect on a CPU, so only the time of the step is measured."
)


def advise(options: AdviseOptions, console: Console, place: Place, out: Console) -> int:
    """Measure, print the answer on `out` and progress on `console`, and return the exit code.

    Without a GPU, the newest stored measurement of the step answers; if there is none, a step is timed on the CPU.
    """
    if options.reference:
        return _from_reference(options, out)
    if options.from_store:
        return _from_store(options, out)
    suite = suite_to_compare(options, kept_rules(options.freeze))
    say(console, LOOKING.format(workload=options.workload))
    machine = place.look(suite)
    planned = plan_step(options, suite, machine, suite_name=SUITE, job=options.job)
    compares = machine.environment.device == "cuda"
    if compares:
        gpu, minutes = machine.environment.gpu, f"{options.minutes:g} minutes"
        say(console, f"Measuring on {gpu} with benchmark off and on, for at most {minutes}.")
    elif _newest(open_store(options.location), options, on_gpu=True) is not None:
        where = f"this is a stored measurement in {options.location}"
        say(console, f"No GPU here, so nothing is measured: {where}.")
        return _from_store(options, out)
    else:
        say(console, TIMED_ON_CPU)
    ran = run_sweep(planned, place, console)
    answered = answered_of(options, ran.store, ran.session.sweep_id)
    ran.check_not_stopped(is_decided=code_of(answered) != ExitCode.CANNOT_TELL)
    code = tell(options, answered, out)
    return code if compares or code != ExitCode.CANNOT_TELL else ExitCode.NEEDS_GPU


def suite_to_compare(
    options: AdviseOptions, errata: str | None, float64: bool = False
) -> SuiteSpec:
    """Return a suite with benchmark off and on, and with off under these errata if there are some."""
    measure = MeasureSpec(
        reference_replicates=int(float64), logged_replicates=0, calibrate=False, device_budget_s=0.3
    )
    suite = suite_of(options, UNTIL, measure)
    if errata is not None:
        configs = [*suite.configs, Config(errata=errata)]
        suite = suite.model_copy(update={"configs": configs})
    return suite


def kept_rules(file: str | None) -> str | None:
    """Return a file's rules as a config has them. Raises SpecError."""
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
    """Answer for each measured GPU model and input; all other settings are PyTorch's defaults."""
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
        say(out, _rounded_json(asked))
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
    """Return the newest sweep of this step, with the same input, regime, direction and arguments.

    Prefers a sweep on a GPU; with `on_gpu`, returns no other.
    """
    cells = stored_cells(store, SUITE, options.workload)
    gpus_first = sorted(cells, key=lambda cell: cell.device == "cpu")
    wanted = [cell for cell in gpus_first if cell.device != "cpu" or not on_gpu]
    return next((cell.sweep_id for cell in wanted if is_step(options, cell)), None)


def tell(options: AdviseOptions, answered: Answered, out: Console) -> ExitCode:
    if options.json:
        say(out, _rounded_json(as_json(answered)))
    else:
        say(out, "\n" + "\n".join(advice_lines(answered)).rstrip())
    return code_of(answered)


def answered_of(options: AdviseOptions, store: Store, sweep_id: str) -> Answered:
    rows = Advice.of(store, sweep_id, **options.job.values())
    most = _with_most_blocks(rows)
    others = (row for row in rows if not row.asked and most and row.in_turns == most.in_turns)
    trials = store.snapshot(sweep_id).table(TIMED).to_pylist()
    with open_database(store, sweep_id) as database:
        kernels = kernel_changes(database, sweep_id) if most else []
    return Answered(
        kept=kept_choice(options, store, sweep_id, options.freeze, kept_rules(options.freeze)),
        sweep_id=sweep_id,
        advice=most,
        other=next(others, None),
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
    """Return the stored results of a kept choice; None if the sweep has none."""
    if file is None or errata is None:
        return None
    contrast = {"field": "errata", "baseline": "null", "candidate": as_text(errata)}
    rows = Advice.of(store, sweep_id, **contrast, **options.job.values())
    measured = [freeze for freeze in Freeze.of(store, sweep_id) if freeze.errata == errata]
    advice = _with_most_blocks(rows)
    if advice is None or not measured:
        return None
    return Kept(file=file, advice=advice, measured=measured[0])


def _with_most_blocks(rows: Sequence[Advice]) -> Advice | None:
    """Return the row with most blocks, of those for the start that is requested."""
    return max((row for row in rows if row.asked), key=lambda row: row.blocks, default=None)


def as_json(answered: Answered) -> dict[str, object]:
    """Return the rows of the question `advice`, with kernels, ranks, times and messages."""
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


def _rounded_json(parts: object) -> str:
    def rounded(text: str) -> float:
        return float(f"{float(text):.{DIGITS}g}")

    exact = json.dumps(parts, default=vars)
    return json.dumps(json.loads(exact, parse_float=rounded), indent=2)


def code_of(answered: Answered) -> ExitCode:
    """Return the exit code: there is a decision, time was too short for one, or the model does not run."""
    if answered.fails:
        return ExitCode.DOES_NOT_RUN
    if answered.said == UNDECIDED:
        return ExitCode.CANNOT_TELL
    advice = answered.advice
    if advice is not None and advice.advice in (DOES_NOT_FIT, FAILS) and not advice.blocks:
        runs = advice.baseline_failed < advice.candidate_failed
        return ExitCode.FINE if runs else ExitCode.DOES_NOT_RUN
    return ExitCode.FINE
