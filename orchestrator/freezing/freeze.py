"""`sweep freeze`: find which plans to ban, compare off, on and frozen in turns, and keep that as a file; or see
what a kept file does now.
"""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

from rich.console import Console

from cudnn_sweep.analysis.words import counted, milliseconds
from cudnn_sweep.orchestrator.errors import NeedsGpuError, SpecError
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.freezing.find import Frozen, find_rules
from cudnn_sweep.orchestrator.freezing.probe import Probe, forked_probe
from cudnn_sweep.orchestrator.launching.advising import (
    SUITE,
    answered_of,
    code_of,
    kept_choice,
    kept_rules,
    suite_to_compare,
    tell,
)
from cudnn_sweep.orchestrator.launching.one_step import LOOKING, plan_step
from cudnn_sweep.orchestrator.launching.step_options import FreezeOptions
from cudnn_sweep.orchestrator.planning.plan import first_calls
from cudnn_sweep.orchestrator.planning.request import Planned
from cudnn_sweep.orchestrator.running.run_sweep import Place, open_results, run_sweep
from cudnn_sweep.orchestrator.showing.advice_text import Kept
from cudnn_sweep.orchestrator.showing.say import say
from cudnn_sweep.workloads.cells.config import CudnnConfig
from cudnn_sweep.workloads.cells.errata import as_json
from cudnn_sweep.workloads.hardware.environment import Environment

SLOWER = 1.01  # than off, a step
CHECK_TURNS = 3  # processes each way
OF_ENVIRONMENT = ("gpu", "torch", "cuda", "cudnn", "driver")
OF_STEP = ("workload", "input", "direction", "precision", "layout", "regime", "shapes")
OpenProbe = Callable[[Planned, Console], AbstractContextManager[Probe]]


def freeze(
    options: FreezeOptions,
    console: Console,
    place: Place,
    out: Console,
    opened: OpenProbe = forked_probe,
) -> int:
    """Print the answer on `out`, and return the exit code; `console` shows what goes on meanwhile.

    Raises ModelError if a step does not run.
    """
    run = _freeze if options.check is None else _check
    return run(options, console, place, out, opened)


def _freeze(
    options: FreezeOptions, console: Console, place: Place, out: Console, opened: OpenProbe
) -> int:
    if options.file.exists():
        raise SpecError(
            f"{options.file} is there already: see with --check what it does, or name another one by --output"
        )
    if not os.access(options.file.parent, os.W_OK):
        raise SpecError(f"--output: {options.file.parent} is no folder that can be written to")
    open_results(options.location, console)  # to fail before anything is searched
    planned = _looked(options, None, console, place)
    environment = planned.machine.environment
    with opened(planned, console) as probe:
        frozen = find_rules(probe, environment.cudnn or 0, lambda text: say(console, text))
    if not frozen.rules:
        count = counted(len(frozen.plans), "convolution operation")
        return _nothing(options, out, f"without a search {count} take their fastest plans already")
    say(console, f"Comparing off, on and frozen, for at most {options.minutes:g} minutes.")
    suite, machine = suite_to_compare(options, frozen.text, options.float64), planned.machine
    minutes, job = _minutes(options), options.job
    compared = plan_step(options, suite, machine, suite_name=SUITE, minutes=minutes, job=job)
    ran = run_sweep(compared, place, console)
    sweep_id, file = ran.session.sweep_id, str(options.file)
    answered = answered_of(options, ran.store, sweep_id)
    kept = kept_choice(options, ran.store, sweep_id, file, frozen.text)
    if kept is None:
        ran.unless_stopped(code_of(answered))
        return tell(options, answered, out)
    if kept.is_no_faster:
        return _nothing(options, out, "a step with what a search found is no faster than off")
    kept = replace(kept, cannot=frozen.cannot, operations=len(frozen.plans))
    provenance = _provenance(options, environment, frozen, kept, sweep_id)
    options.file.write_text(as_json(frozen.rules, indent=1, frozen=provenance))
    say(console, f"\nWritten: {file}")
    tell(options, replace(answered, kept=kept, command=options.advise_command()), out)
    return ExitCode.FINE


def _looked(options: FreezeOptions, errata: str | None, console: Console, place: Place) -> Planned:
    """Raises NeedsGpuError where there is no GPU."""
    say(console, LOOKING.format(workload=options.workload))
    suite = suite_to_compare(options, errata)
    machine = place.look(suite, needs_cuda=True)
    if machine.environment.device != "cuda":
        raise NeedsGpuError("sweep freeze needs a GPU: what a search chooses is seen only there")
    planned = plan_step(options, suite, machine, suite_name=SUITE, minutes=_minutes(options))
    place.call(first_calls(planned.chosen), machine, console)
    return planned


def _minutes(options: FreezeOptions) -> float:
    """Of the command up to the end of a comparison that begins now."""
    return options.minutes + (monotonic() - options.began) / 60


def _nothing(options: FreezeOptions, out: Console, why: str) -> int:
    text = f"Nothing to gain: {why}. No file is written."
    if options.format == "json":
        say(out, json.dumps({"frozen": None, "why": text}, indent=2))
    else:
        say(out, f"\n{text}")
    return ExitCode.FINE


def _provenance(
    options: FreezeOptions, environment: Environment, frozen: Frozen, kept: Kept, sweep_id: str
) -> dict[str, Any]:
    measured = kept.measured
    return {
        **{name: getattr(options, name) for name in OF_STEP},
        **{name: getattr(environment, name) for name in OF_ENVIRONMENT},
        "command": options.command(),
        "sweep_id": sweep_id,
        "date": datetime.now(UTC).date().isoformat(),
        "off_ms": measured.off_ms,
        "on_ms": measured.on_ms,
        "frozen_ms": measured.frozen_ms,
        "searched_ms": frozen.searched_ms,
        "plans": list(frozen.plans),
    }


def _check(
    options: FreezeOptions, console: Console, place: Place, out: Console, opened: OpenProbe
) -> int:
    """Whether a step takes the plans that the file was made for, and is not slower than with off."""
    file = options.check or ""
    errata, then = kept_rules(file), _frozen_in(file)
    planned = _looked(options, errata, console, place)
    environment = planned.machine.environment
    off, frozen = CudnnConfig(), CudnnConfig(errata=errata)
    times: dict[str, list[float]] = {"off": [], "frozen": []}
    with opened(planned, console) as probe:
        taken = [each.engine for each in probe.log(frozen).logged_choices or []]
        for _ in range(CHECK_TURNS):
            times["off"].append(probe.step_ms(off))
            times["frozen"].append(probe.step_ms(frozen))
    plans = then["plans"]
    pairs = list(enumerate(zip(plans, taken, strict=False), 1))
    others = [
        f"operation {number}: {one} then, {other} now"
        for number, (one, other) in pairs
        if one != other
    ]
    changed = [
        f"{name}: made with {then.get(name)}, here {now}"
        for name in OF_ENVIRONMENT
        if (now := getattr(environment, name)) != then.get(name)
    ]
    off_ms, frozen_ms = median(times["off"]), median(times["frozen"])
    holds, same = taken == plans and frozen_ms <= SLOWER * off_ms, len(pairs) - len(others)
    answer = {
        "holds": holds,
        "operations": len(taken),
        "same_plans": same,
        "off_ms": off_ms,
        "frozen_ms": frozen_ms,
        "frozen_ms_then": then.get("frozen_ms"),
        "changed": changed,
        "other_plans": others,
    }
    if options.format == "json":
        say(out, json.dumps(answer, indent=2))
        return ExitCode.FINE if holds else ExitCode.WORSE
    count = f"{same} of {counted(len(taken), 'operation')} take the plan of {file}"
    step = f"a step takes {milliseconds(frozen_ms)} with it, {milliseconds(off_ms)} with off"
    verdict = "The kept choice holds" if holds else "The kept choice does not hold here"
    again = [] if holds else [f"Make it anew: {options.command()}"]
    say(out, "\n".join([f"\n{verdict}: {count}; {step}.", *changed, *others, *again]))
    return ExitCode.FINE if holds else ExitCode.WORSE


def _frozen_in(file: str) -> Mapping[str, Any]:
    """What `sweep freeze` wrote beside the rules. Raises SpecError."""
    try:
        frozen: Any = json.loads(Path(file).read_text())["frozen"]
        plans = frozen["plans"]
    except (KeyError, TypeError):
        plans = None
    if not isinstance(plans, list):
        raise SpecError(f"--check: {file} has rules alone, wanted a file that `sweep freeze` made")
    return frozen  # type: ignore[no-any-return]
