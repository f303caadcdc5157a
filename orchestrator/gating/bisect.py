"""`sweep bisect`: which of several environments, from the oldest to the newest, made a step slower? Pairs of them in
turns, as `sweep gate` measures two sides.
"""

import json
import math
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
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
from cudnn_sweep.orchestrator.planning.request import Planned
from cudnn_sweep.orchestrator.process.client import survey_of
from cudnn_sweep.orchestrator.running.run_sweep import Place, Ran, open_results, run_sweep
from cudnn_sweep.orchestrator.showing.say import say
from cudnn_sweep.workloads.cells.suite import workload_names
from cudnn_sweep.workloads.hardware.environment import Environment
from cudnn_sweep.workloads.hashes import content_hash
from cudnn_sweep.workloads.survey import Survey

PACKAGES = """
from importlib.metadata import distributions
print(sorted({(each.name, each.version) for each in distributions()}))
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tested:
    """An environment, and its software."""

    side: Side
    software: Environment
    installed: str
    """A hash of the packages that it has, and of where it is."""

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
            again = " The same command goes on." * (self.code == CODES["cannot tell yet"])
            return f"{self.last.head}: {self.last.headline}{again}"
        first, row = self.environments[self.first], self.answers[self.first].row
        which = f"{first.side.label} ({first.versions}) is the first"
        if row is None or row.ratio is None:
            return f"{which} where it does not run: {self.answers[self.first].headline}"
        ends = interval(row.ratio_low, row.ratio_high)
        oldest = self.environments[0].side.label
        return f"{which} that is slower: a step takes {ratio(row.ratio)}{ends} of the time of {oldest}."

    @property
    def changed(self) -> dict[str, tuple[object, object]]:
        """What the first slow environment has otherwise than the one before it."""
        if self.first is None:
            return {}
        before, since = (each.software for each in self.environments[self.first - 1 :][:2])
        parts = {name: (getattr(before, name), getattr(since, name)) for name in SETTINGS_APART}
        return {name: values for name, values in parts.items() if values[0] != values[1]}

    def text(self) -> str:
        wide = max(len(each.side.label) for each in self.environments)
        told = {0: "Baseline."} | {at: each.headline for at, each in self.answers.items()}
        lines = [
            f"{each.side.label:<{wide}}  {each.versions}: {told.get(number, 'Not measured.')}"
            for number, each in enumerate(self.environments)
        ]
        changed = [f"{name}: {one} → {other}" for name, (one, other) in self.changed.items()]
        since = [f"Changed there: {', '.join(changed)}"] if changed else []
        return "\n".join([self.headline, "", *lines, *since])

    def json(self) -> str:
        answer = {"headline": self.headline, "changed": self.changed, **asdict(self)}
        return json.dumps(
            answer, indent=2, default=lambda part: getattr(part, "__dict__", str(part))
        )


def bisect(
    options: BisectOptions,
    console: Console,
    place: Place,
    out: Console,
    look: Callable[[Path, list[str]], Survey] = survey_of,
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
    planned = plan_cells(options, name, suite, machine)
    if (cells := len(planned.chosen.cell_ids())) > 1:
        raise SpecError(f"found {cells} cells of {name}, allowed: one; --only cell_id=... names it")
    environments = [
        Tested(side=side, software=each.environment, installed=_installed(side.code.python))
        for side, each in zip(sides, found, strict=True)
    ]
    run = partial(run_sweep, place=place, console=console)
    measure = partial(_pair, planned, run, environments[0])
    answer = _bisected(options, environments, measure, console)
    say(out, answer.json() if options.json else f"\n{answer.text()}")
    return answer.code


def _bisected(
    options: BisectOptions,
    environments: Sequence[Tested],
    measure: Callable[[Tested, BisectOptions], Gate],
    console: Console,
) -> Bisection:
    """The newest first; where that is slower, always the middle one of those that are left. It counts as slower with
    half of the newest's slowdown: that is soon decided, and no small change on the way is in its place.
    """
    answers: dict[int, Gate] = {}
    good, at = 0, len(environments) - 1
    slow: int | None = None
    while at not in answers and at > good:
        answers[at] = answer = measure(environments[at], options)
        say(console, f"{answer.head}: {answer.headline}")
        if answer.code == CODES["slower"]:
            slow = at
        elif slow is None or answer.code == CODES["cannot tell yet"]:
            slow = None
            break
        else:
            good = at
        if len(answers) == 1 and answer.row is not None and answer.row.ratio is not None:
            half = math.sqrt(answer.row.ratio) - 1
            options = replace(options, threshold=max(options.threshold, half))
        at = (good + slow) // 2
    return Bisection(environments=environments, answers=answers, first=slow)


def _installed(python: Path | None) -> str:
    """Of a Python that cannot say, only where it is."""
    try:
        listed = subprocess.run(
            [str(python), "-P", "-c", PACKAGES], check=False, capture_output=True, text=True
        ).stdout
    except OSError:
        listed = ""
    return content_hash((str(python), listed))


def _step_file(workload: str) -> str:
    """What a step's own file says; empty for a workload that is none."""
    file = Path(workload.rpartition(":")[0])
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def _pair(
    planned: Planned,
    run: Callable[[Planned], Ran],
    one: Tested,
    other: Tested,
    options: BisectOptions,
) -> Gate:
    """The sweep of a pair has its name of what is compared: asked again, it resumes, or has its answer."""
    suite = with_sides(options, planned.request.suite, one.side, other.side)
    plan = make_plan(planned.whole.suite, suite, [planned.chosen.trials[0].cell])
    softwares = [(each.software.software_hash, each.installed) for each in (one, other)]
    softwares += [("step", content_hash(_step_file(options.workload)))]
    request = replace(
        planned.request,
        suite=suite,
        options=LaunchOptions(sweep_id=f"bisect-{content_hash((plan.plan_hash, softwares))}"),
        codes={each.side.label: each.side.code for each in (one, other)},
        budget_minutes=options.minutes,
        min_effect=options.threshold,
    )
    ran = run(replace(planned, request=request, whole=plan, chosen=plan))
    labels = one.side.label, other.side.label
    return gate_of(options, ran.store, ran.session.sweep_id, *labels, one.software.gpu)
