"""Times each cell without bans and with each of its engines banned, for `sweep bans`."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
from rich.console import Console

from cudnn_sweep.analysis.answers.answer import STATES, Answer, Section
from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.engine.queries import load_query
from cudnn_sweep.analysis.results.marked import MarkedColumn, marked_columns
from cudnn_sweep.analysis.words import counted
from cudnn_sweep.orchestrator.errors import ModelError, NeedsGpuError
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.freezing.freeze import OpenProbe
from cudnn_sweep.orchestrator.freezing.probe import forked_probe
from cudnn_sweep.orchestrator.planning.plan import first_calls, make_plan
from cudnn_sweep.orchestrator.planning.request import Planned
from cudnn_sweep.orchestrator.running.run_sweep import Place, Ran, open_results, run_sweep
from cudnn_sweep.orchestrator.steps.one_step import (
    LOOKING,
    UNTIL,
    blocks_minutes,
    left_of_minutes_s,
    plan_cells,
    suite_asked,
)
from cudnn_sweep.orchestrator.steps.step_options import BansOptions
from cudnn_sweep.orchestrator.terminal.say import say, warn
from cudnn_sweep.workloads.cells.errata import OPERATIONS, TAG, Rule
from cudnn_sweep.workloads.cells.measurement import MeasureSpec

MEASURE = MeasureSpec(calibrate=False, steady_budget_s=0.5, device_budget_s=0.3)


def bans(
    options: BansOptions, console: Console, place: Place, opened: OpenProbe = forked_probe
) -> Ran | None:
    """Run the sweep. Return None if no cell uses a cuDNN engine. Raises NeedsGpuError."""
    open_results(options.location, console)  # fails early if the results cannot be written
    say(console, LOOKING.format(workload=options.workload))
    name, suite = suite_asked(options, MEASURE)
    machine = place.look(suite, needs_cuda=True)
    if machine.environment.device != "cuda":
        raise NeedsGpuError("sweep bans needs a GPU, because cuDNN does not run on a CPU")
    looked = plan_cells(options, name, suite, machine)
    place.call(first_calls(looked.chosen), machine, console)
    by_cell = _bans_by_cell(looked, console, opened)
    if not by_cell:
        return None
    (usual,) = suite.configs
    configs = {
        cell_id: (usual, *(replace(usual, errata=ban) for ban in of_cell))
        for cell_id, of_cell in by_cell.items()
    }
    cells = {trial.cell.cell_id: trial.cell for trial in looked.chosen.trials}
    suite = suite.model_copy(update={"replicates": UNTIL})
    whole = make_plan(looked.whole.suite, suite, [cells[cell_id] for cell_id in by_cell], configs)
    minutes = blocks_minutes(left_of_minutes_s(options))
    request = replace(looked.request, budget_minutes=minutes)
    return run_sweep(replace(looked, request=request, whole=whole, chosen=whole), place, console)


def answered(options: BansOptions, ran: Ran | None) -> tuple[Answer, pa.Table, list[MarkedColumn]]:
    rows, marked, asked = pa.table({}), list[MarkedColumn](), load_query("bans")
    headline = f"Nothing to ban: no cell of {options.workload} runs a convolution in cuDNN."
    if ran is not None:
        with open_database(ran.store, ran.session.sweep_id) as database:
            rows = database.ask(asked, min_effect=options.min_effect)
            marked = marked_columns(database, asked, rows)
        counts = Counter(rows["wall_verdict"].to_pylist())
        verdicts = ", ".join(f"{verdict} {count}" for verdict, count in sorted(counts.items()))
        headline = f"{counted(len(rows), 'ban')} of {options.workload}: {verdicts or 'no result'}."
    is_cut = ran is not None and ran.exit_code == ExitCode.UNFINISHED
    answer = Answer(
        kind="bans",
        subject=options.workload,
        state="fine" if ran is None else STATES[ran.exit_code],
        headline=headline,
        sections=[
            Section.of(marked),
            Section(notes=[["Some cells are undecided. The same command resumes."]] * is_cut),
        ],
        values={"bans": rows.to_pylist()},
    )
    return answer, rows, marked


def _bans_by_cell(looked: Planned, console: Console, opened: OpenProbe) -> dict[str, list[str]]:
    """Return bans for the engines of each cell, by cell_id. Skip cells without engines."""
    by_cell: dict[str, list[str]] = {}
    failed = ""
    with opened(looked, console) as probe:
        for trial in looked.chosen.trials:
            if trial.twin:
                continue
            try:
                log = probe.of(trial).log(trial.config)
            except ModelError as error:
                failed = f"left out: {error}"
                warn(console, failed)
                continue
            if of_cell := bans_of(choice.engine for choice in log.logged_choices or []):
                by_cell[trial.cell.cell_id] = of_cell
    if failed and not by_cell:
        raise ModelError(f"no cell runs and uses an engine of cuDNN; {failed}")
    every = sorted(set().union(*by_cell.values()))
    say(console, f"Engines that the cells use: {', '.join(every) or 'none'}.")
    return by_cell


def bans_of(tags: Iterable[str]) -> list[str]:
    rules = {
        str(Rule(operation=match["operation"], engine=int(match["engine"])))
        for match in map(TAG.match, tags)
        if match and match["operation"] in OPERATIONS
    }
    return sorted(rules)
