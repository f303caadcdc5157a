"""Implements `sweep advise`, which recommends settings for a job."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from cudnn_sweep.analysis.answers.answer import Answer, Section
from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.engine.settings import as_text, unusual_in
from cudnn_sweep.analysis.results.advice import (
    UNDECIDED,
    Advice,
    Freeze,
    RankPrediction,
    config_trials,
    kernel_changes,
)
from cudnn_sweep.analysis.store.location import REFERENCE
from cudnn_sweep.analysis.store.store import Store, open_store
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.running.run_sweep import Place, run_sweep
from cudnn_sweep.orchestrator.steps.advice_text import Answered, Kept, answer_of
from cudnn_sweep.orchestrator.steps.one_step import (
    LOOKING,
    plan_step,
    stored_sweeps,
    suite_to_compare,
)
from cudnn_sweep.orchestrator.steps.racing import race, stored_race
from cudnn_sweep.orchestrator.steps.step_options import AdviseOptions
from cudnn_sweep.orchestrator.terminal.say import say
from cudnn_sweep.workloads.cells.errata import read_file, text_of
from cudnn_sweep.workloads.records.row import BUNDLED

SUITE = "advise"
NETWORKS = "networks-*"  # the installed sweeps of whole networks
ONLY_IN_A_RACE = (
    "allowed only if several levers are raced. The command cannot race with --levers benchmark, "
    "--freeze, --ranks, --measure-ranks or --reference"
)
STORED_ANSWERS = "This machine has no GPU. The answer is from a stored measurement in {}."
TIMED_ON_CPU = (
    "This machine has no GPU. cuDNN's flags have no effect on a CPU, so only the step is timed."
)


def advise(options: AdviseOptions, console: Console, place: Place) -> Answer:
    """Measure the step, or read stored results if the options request it or without a GPU."""
    of_race = {"levers": options.levers != "benchmark" and options.levers, "allow": options.allow}
    for name, given in {**of_race, "same-bits": options.same_bits}.items():
        if given and not options.races:
            raise SpecError(f"--{name}: {ONLY_IN_A_RACE}")
    if options.reference:
        return _from_reference(options)
    if options.from_store:
        if stored := _stored(options):
            return answer_of(stored)
        raise SpecError(
            f"--from-store: found no `sweep advise` run of this step in {options.location}; "
            f"to measure it now, run: {options.command()}"
        )
    suite = suite_to_compare(options, kept_rules(options.freeze) if options.freeze else None)
    say(console, LOOKING.format(workload=options.workload))
    machine = place.look(suite)
    compares = machine.environment.device == "cuda"
    if compares and options.races:
        return answer_of(race(options, machine, place, console))
    planned = plan_step(options, suite, machine, suite_name=SUITE, job=options.job)
    if compares:
        gpu, minutes = machine.environment.gpu, f"{options.limit_minutes:g} minutes"
        say(console, f"Measuring on {gpu} with benchmark off and on, for at most {minutes}.")
    elif stored := _stored(options, on_gpu=True):
        say(console, STORED_ANSWERS.format(options.location))
        return answer_of(stored)
    else:
        say(console, TIMED_ON_CPU)
    ran = run_sweep(planned, place, console)
    answer = answer_of(answered_of(options, ran.store, ran.session.sweep_id))
    is_decided = answer.state != "cannot tell"
    ran.check_not_stopped(is_decided=is_decided)
    return answer if compares or is_decided else replace(answer, state="needs a GPU")


def kept_rules(file: str) -> str:
    """Return the rules of an errata file as text. Raises SpecError if the file is invalid."""
    try:
        return text_of(read_file(Path(file)))
    except ValueError as error:
        raise SpecError(str(error)) from None


def _stored(options: AdviseOptions, *, on_gpu: bool = False) -> Answered | None:
    if options.races and (found := stored_race(options)):
        return found
    store = open_store(options.location)
    sweep_id = next(stored_sweeps(store, options, SUITE, on_gpu=on_gpu), None)
    return None if sweep_id is None else answered_of(options, store, sweep_id)


def _from_reference(options: AdviseOptions) -> Answer:
    """Return the answer from the installed results, with a section for each GPU and input."""
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
    sections = []
    for row in asked:
        others = (other for other in found if other.cell_id == row.cell_id and not other.asked)
        of_gpu = Answered(options=options, sweep_id=NETWORKS, advice=row, other=next(others, None))
        title = f"{row.gpu}, {row.input_shape}: {of_gpu.headline}"
        sections += [Section(title=title, rows=list(of_gpu.facts())), *of_gpu.tables()]
    return Answer(
        kind="advise",
        subject=options.workload,
        state="fine" if any(row.advice != UNDECIDED for row in asked) else "cannot tell",
        headline=f"{options.workload} in the installed results:",
        sections=sections,
        values={"asked": asked},
    )


def answered_of(options: AdviseOptions, store: Store, sweep_id: str) -> Answered:
    rows = Advice.of(store, sweep_id, **options.job.values())
    most = _with_most_blocks(rows)
    others = (row for row in rows if not row.asked and most and row.in_turns == most.in_turns)
    file, ranks = options.freeze, options.ranks or options.measure_ranks
    with open_database(store, sweep_id) as database:
        kernels = kernel_changes(database, sweep_id) if most else []
    return Answered.of(
        options,
        sweep_id,
        config_trials(store, sweep_id),
        kept=kept_choice(options, store, sweep_id, file, kept_rules(file)) if file else None,
        advice=most,
        other=next(others, None),
        kernels=kernels,
        ranks=RankPrediction.of(store, sweep_id, ranks=ranks) if ranks else [],
    )


def kept_choice(
    options: AdviseOptions, store: Store, sweep_id: str, file: str, errata: str
) -> Kept | None:
    contrast = {"field": "errata", "baseline": "null", "candidate": as_text(errata)}
    rows = Advice.of(store, sweep_id, **contrast, **options.job.values())
    measured = [freeze for freeze in Freeze.of(store, sweep_id) if freeze.errata == errata]
    advice = _with_most_blocks(rows)
    return Kept(file=file, advice=advice, measured=measured[0]) if advice and measured else None


def _with_most_blocks(rows: Sequence[Advice]) -> Advice | None:
    return max((row for row in rows if row.asked), key=lambda row: row.blocks, default=None)
