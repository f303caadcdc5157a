"""`sweep bisect`: which of several environments, from the oldest to the newest, made a step slower? Pairs of them in
turns, as `sweep gate` measures two sides.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console

from cudnn_sweep.analysis.words import cudnn_version, interval, ratio
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.gating.gate import (
    CODES,
    MEASURE,
    SETTINGS_APART,
    Gate,
    gate_of,
    with_sides,
)
from cudnn_sweep.orchestrator.gating.sides import Side, environments_of
from cudnn_sweep.orchestrator.launching.one_step import LOOKING, plan_cells, suite_asked
from cudnn_sweep.orchestrator.launching.step_options import BisectOptions
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.plan import make_plan
from cudnn_sweep.orchestrator.process.client import ForkServer, survey
from cudnn_sweep.orchestrator.running.run_sweep import Place, Planned, open_results, run_sweep
from cudnn_sweep.orchestrator.showing.say import say
from cudnn_sweep.workloads.cells.suite import workload_names
from cudnn_sweep.workloads.hardware.environment import Environment
from cudnn_sweep.workloads.hashes import content_hash
from cudnn_sweep.workloads.survey import Survey


@dataclass(frozen=True, kw_only=True, slots=True)
class Tested:
    """An environment, and its software."""

    side: Side
    software: Environment

    @property
    def versions(self) -> str:
        cudnn = self.software.cudnn
        told = f", cuDNN {cudnn_version(cudnn)}" if cudnn else ""
        return f"torch {self.software.torch}{told}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Bisection:
    """What came of a bisection."""

    environments: Sequence[Tested]
    """From the oldest to the newest."""
    answers: Mapping[int, Gate]
    """By number, of those that were measured against the oldest; the last one decides."""
    first: int | None
    """Number of the first slow environment."""

    @property
    def last(self) -> Gate:
        return list(self.answers.values())[-1]

    @property
    def code(self) -> int:
        return CODES["slower"] if self.first is not None else self.last.code

    @property
    def headline(self) -> str:
        if self.first is None:
            more = (
                " The same command goes on." if self.last.code == CODES["cannot tell yet"] else ""
            )
            return f"{self.last.head}: {self.last.headline}{more}"
        first, row = self.environments[self.first], self.answers[self.first].row
        which = f"{first.side.label} ({first.versions}) is the first"
        if row is None or row.ratio is None:
            return f"{which} where it does not run: {self.answers[self.first].headline}"
        ends = interval(row.ratio_low, row.ratio_high)
        oldest = self.environments[0].side.label
        return f"{which} that is slower: a step takes {ratio(row.ratio)}{ends} of the time of {oldest}."

    def facts(self) -> Iterator[tuple[str, str, str]]:
        for number, each in enumerate(self.environments):
            answer = self.answers.get(number)
            told: str = "not measured" if answer is None else answer.state
            if answer is not None and answer.row is not None and answer.row.ratio is not None:
                row = answer.row
                told += f", {ratio(row.ratio)}{interval(row.ratio_low, row.ratio_high)}"
            yield each.side.label, each.versions, told if number else "the others' baseline"

    @property
    def changed(self) -> dict[str, tuple[object, object]]:
        """What the first slow environment has otherwise than the one before it."""
        if self.first is None:
            return {}
        before, since = (each.software for each in self.environments[self.first - 1 :][:2])
        parts = {name: (getattr(before, name), getattr(since, name)) for name in SETTINGS_APART}
        return {name: values for name, values in parts.items() if values[0] != values[1]}

    def text(self) -> str:
        rows = list(self.facts())
        wide, wider = (max(len(row[place]) for row in rows) for place in (0, 1))
        lines = [f"{label:<{wide}}  {said:<{wider}}  {told}" for label, said, told in rows]
        changed = [f"{name}: {one} → {other}" for name, (one, other) in self.changed.items()]
        since = [f"Changed there: {', '.join(changed)}"] if changed else []
        return "\n".join([self.headline, "", *lines, *since])

    def json(self) -> str:
        rows = [
            {
                "python": each.side.label,
                "software": asdict(each.software),
                "answer": asdict(self.answers[number]) if number in self.answers else None,
            }
            for number, each in enumerate(self.environments)
        ]
        answer = {
            "headline": self.headline,
            "first": self.first,
            "changed": self.changed,
            "environments": rows,
        }
        return json.dumps(answer, indent=2, default=vars)


def surveyed(python: Path, names: list[str]) -> Survey:
    """What an environment is and knows of these workloads. Raises ServerError where it does not come up."""
    with ForkServer(python=python, survey_only=True) as server:
        return survey(server, names)


def bisect(
    options: BisectOptions,
    console: Console,
    place: Place,
    out: Console,
    look: Callable[[Path, list[str]], Survey] = surveyed,
) -> int:
    """Measure, print the answer on `out`, and return the exit code."""
    open_results(options.location, console)  # to fail before anything is looked at
    sides = environments_of(options.pythons)
    say(console, LOOKING.format(workload=options.workload))
    name, suite = suite_asked(options, MEASURE)
    found = [look(each.code.python or Path(), workload_names(suite)) for each in sides]
    machine = replace(
        place.look(suite), environment=found[0].environment, workloads=found[0].workloads
    )
    planned = plan_cells(options, name, suite, machine, place)
    if (cells := len(planned.chosen.cell_ids())) > 1:
        raise SpecError(f"found {cells} cells of {name}, allowed: one; --only cell_id=... names it")
    environments = [
        Tested(side=side, software=each.environment)
        for side, each in zip(sides, found, strict=True)
    ]
    answer = _bisected(options, planned, environments, console, place)
    if options.json:
        out.print(answer.json(), soft_wrap=True, highlight=False)
    else:
        say(out, f"\n{answer.text()}")
    return answer.code


def _bisected(
    options: BisectOptions,
    planned: Planned,
    environments: Sequence[Tested],
    console: Console,
    place: Place,
) -> Bisection:
    """The newest first; where that is slower, always the middle one of those that are left. It counts as slower with
    half of the newest's slowdown: that is soon decided, and no small change on the way is in its place.
    """
    answers: dict[int, Gate] = {}
    good, at = 0, len(environments) - 1
    slow: int | None = None
    while at not in answers and at > good:
        answer = _pair(options, planned, environments[0], environments[at], console, place)
        answers[at] = answer
        say(console, f"{answer.head}: {answer.headline}")
        if answer.code == CODES["slower"]:
            slow = at
        elif slow is None or answer.code == CODES["cannot tell yet"]:
            return Bisection(environments=environments, answers=answers, first=None)
        else:
            good = at
        if len(answers) == 1 and answer.row is not None and answer.row.ratio is not None:
            half = math.sqrt(answer.row.ratio) - 1
            options = replace(options, threshold=max(options.threshold, half))
        at = (good + slow) // 2
    return Bisection(environments=environments, answers=answers, first=slow)


def _pair(
    options: BisectOptions,
    planned: Planned,
    one: Tested,
    other: Tested,
    console: Console,
    place: Place,
) -> Gate:
    """The sweep of a pair has its name of what is compared: asked again, it resumes, or has its answer."""
    suite = with_sides(options, planned.request.suite, one.side, other.side)
    plan = make_plan(planned.whole.suite, suite, [planned.chosen.trials[0].cell])
    softwares = (one.software.software_hash, other.software.software_hash)
    request = replace(
        planned.request,
        suite=suite,
        options=LaunchOptions(sweep_id=f"bisect-{content_hash((plan.plan_hash, softwares))}"),
        codes={each.side.label: each.side.code for each in (one, other)},
        budget_minutes=options.minutes,
        min_effect=options.threshold,
    )
    ran = run_sweep(replace(planned, request=request, whole=plan, chosen=plan), place, console)
    labels = one.side.label, other.side.label
    return gate_of(options, ran.store, ran.choice.sweep_id, *labels, one.software.gpu)
