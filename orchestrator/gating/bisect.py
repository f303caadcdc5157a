"""Finds the first of several environments in which a step is slower, for `sweep bisect`."""

import json
import math
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rich.console import Console

from cudnn_sweep.analysis.answers.answer import Answer, Section
from cudnn_sweep.analysis.words import cudnn_version, interval, ratio
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.gating.answer import Gate
from cudnn_sweep.orchestrator.gating.gate import MEASURE, SETTINGS_APART, compared, with_sides
from cudnn_sweep.orchestrator.gating.sides import Side, environments_of
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.plan import first_calls, make_plan
from cudnn_sweep.orchestrator.planning.request import Planned
from cudnn_sweep.orchestrator.process.client import ForkServer, call_models, survey_of
from cudnn_sweep.orchestrator.running.run_sweep import Place
from cudnn_sweep.orchestrator.steps.one_step import LOOKING, plan_cells, suite_asked
from cudnn_sweep.orchestrator.steps.step_options import BisectOptions
from cudnn_sweep.orchestrator.terminal.say import say, warn
from cudnn_sweep.workloads.cells.suite import workload_names
from cudnn_sweep.workloads.hardware.environment import Environment
from cudnn_sweep.workloads.hashes import content_hash
from cudnn_sweep.workloads.survey import Survey

LIST_S = 60.0
PACKAGES = """
import json
from importlib.metadata import distributions
print(json.dumps({package.name: package.version for package in distributions()}))
"""
NONE = "none"  # version of a package that is not installed


@dataclass(frozen=True, kw_only=True, slots=True)
class Installation:
    side: Side
    software: Environment
    packages: Mapping[str, str]  # versions by name

    @property
    def versions(self) -> str:
        cudnn = self.software.cudnn
        of_cudnn = f", cuDNN {cudnn_version(cudnn)}" if cudnn else ""
        return f"torch {self.software.torch}{of_cudnn}"


@dataclass(frozen=True, kw_only=True)
class Bisection:
    environments: Sequence[Installation]
    """Environments from the oldest to the newest."""
    answers: Mapping[int, Gate]
    """Comparisons with the oldest environment, by the index of the newer environment."""
    good: int
    """Index of the newest environment that is not slower than the oldest."""
    first: int | None
    """Index of the first environment that is slower or broken, if any."""

    @property
    def decisive(self) -> Gate:
        """Comparison with `first`, or with the newest environment if `first` is None."""
        return self.answers[max(self.answers) if self.first is None else self.first]

    @property
    def headline(self) -> str:
        answer = self.decisive
        if self.first is None:
            again = " The same command resumes." * (answer.state == "cannot tell yet")
            return f"{answer.head}: {answer.headline}{again}"
        first = self.environments[self.first]
        which = f"{first.side.label} ({first.versions})"
        if undecided := self.environments[self.good + 1 : self.first]:
            names = ", ".join(environment.side.label for environment in undecided)
            which += f" or an undecided environment ({names})"
        which += " is the first environment"
        row = answer.row
        if answer.state == "broken" or row is None or row.ratio is None:
            return f"{which} where the step does not run: {answer.headline}"
        ends = interval(row.ratio_low, row.ratio_high)
        oldest = self.environments[0].side.label
        return f"{which} that is slower: a step takes {ratio(row.ratio)}{ends} of the time of {oldest}."

    @property
    def changed(self) -> dict[str, tuple[object, object]]:
        """Values at `good` and `first` of each version that differs, by name."""
        if self.first is None:
            return {}
        before, since = (
            {**at.packages, **{name: getattr(at.software, name) for name in SETTINGS_APART}}
            for at in (self.environments[self.good], self.environments[self.first])
        )
        names = [*SETTINGS_APART, *sorted({*before, *since}, key=str.lower)]
        parts = {name: (before.get(name, NONE), since.get(name, NONE)) for name in names}
        return {name: values for name, values in parts.items() if values[0] != values[1]}

    def answer(self) -> Answer:
        answers = {0: "Baseline."} | {at: answer.headline for at, answer in self.answers.items()}
        rows = [
            (at.side.label, f"{at.versions}: {answers.get(number, 'Not measured.')}")
            for number, at in enumerate(self.environments)
        ]
        moves = ", ".join(f"{name}: {was} → {now}" for name, (was, now) in self.changed.items())
        changed = [("Changed", moves)] if moves else []
        return replace(
            self.decisive.answer(),
            kind="bisect",
            headline=self.headline,
            sections=[Section(rows=[*rows, *changed])],
            commands=(),
            values={"changed": self.changed, **vars(self)},
        )


def bisect(
    options: BisectOptions,
    console: Console,
    place: Place,
    look: Callable[[Path, list[str]], Survey] = survey_of,
) -> Answer:
    sides = environments_of(options.pythons)
    say(console, LOOKING.format(workload=options.workload))
    name, suite = suite_asked(options, MEASURE)
    surveys = [look(side.code.python or Path(), workload_names(suite)) for side in sides]
    oldest = surveys[0]
    machine = replace(place.look(suite), environment=oldest.environment, workloads=oldest.workloads)
    planned = plan_cells(options, name, suite, machine)
    if (cells := len(planned.chosen.cell_ids())) > 1:
        raise SpecError(f"found {cells} cells of {name}, allowed: one; set --only cell_id=...")
    if options.expect is not None:
        with ForkServer(python=sides[0].code.python, survey_only=True) as server:
            for text, is_warning in call_models(server, first_calls(planned.chosen)):
                (warn if is_warning else say)(console, text)
    environments = [
        Installation(side=side, software=seen.environment, packages=_packages(side.code.python))
        for side, seen in zip(sides, surveys, strict=True)
    ]
    measure = partial(_pair, planned, place, console, environments[0])
    return _bisected(options, environments, measure, console).answer()


def _bisected(
    options: BisectOptions,
    environments: Sequence[Installation],
    measure: Callable[[Installation, BisectOptions], Gate],
    console: Console,
) -> Bisection:
    """Compare with the oldest environment: first the newest and, if it is slower, those between."""
    answers: dict[int, Gate] = {}
    good, slow = 0, len(environments)
    while left := [at for at in range(good + 1, slow) if at not in answers]:
        middle = (good + slow) / 2 if slow < len(environments) else slow
        at = min(left, key=lambda number: (abs(number - middle), number))
        answers[at] = answer = measure(environments[at], options)
        say(console, f"{answer.head}: {answer.headline}")
        if answer.state == "slower" and answer.row is not None and slow == len(environments):
            half = math.sqrt(answer.row.ratio) - 1
            options = replace(options, min_effect=max(options.min_effect, half))
        if answer.state in ("slower", "broken"):
            slow = at
        elif answer.state != "cannot tell yet":
            good = at
    first = slow if slow < len(environments) else None
    return Bisection(environments=environments, answers=answers, good=good, first=first)


def _packages(python: Path | None) -> dict[str, str]:
    """Return the versions of installed packages by name, or {} if `python` fails."""
    command = [str(python), "-P", "-c", PACKAGES]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIST_S)
        return dict(json.loads(done.stdout))
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return {}


def _pair(
    planned: Planned,
    place: Place,
    console: Console,
    oldest: Installation,
    newer: Installation,
    options: BisectOptions,
) -> Gate:
    """Compare two environments, or resume their comparison."""
    suite = with_sides(options, planned.request.suite, oldest.side, newer.side)
    plan = make_plan(planned.whole.suite, suite, [planned.chosen.trials[0].cell])
    softwares = [
        (at.software.software_hash, str(at.side.code.python), sorted(at.packages.items()))
        for at in (oldest, newer)
    ]
    file = Path(options.workload.rpartition(":")[0])
    step = file.read_text(encoding="utf-8") if file.is_file() else ""
    request = replace(
        planned.request,
        suite=suite,
        options=LaunchOptions(sweep_id=f"bisect-{content_hash((plan.plan_hash, softwares, step))}"),
        codes={at.side.label: at.side.code for at in (oldest, newer)},
        budget_minutes=options.minutes,
        min_effect=options.min_effect,
        one_sided=True,
    )
    planned = replace(planned, request=request, whole=plan, chosen=plan)
    return compared(options, planned, oldest.side, newer.side, place, console)
