"""`sweep gate`: does one change make a step slower? Two sides in turns on one GPU, with A/A pairs as control."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal
from xml.etree import ElementTree

from rich.console import Console

from cudnn_sweep.analysis.answering.advice import KernelChange, kernel_changes
from cudnn_sweep.analysis.answering.answers import AnswerRow
from cudnn_sweep.analysis.answering.verdicts import Verdict, verdicts
from cudnn_sweep.analysis.asking.database import open_database
from cudnn_sweep.analysis.asking.formats import escaped
from cudnn_sweep.analysis.asking.queries import Value, literal
from cudnn_sweep.analysis.asking.settings import as_text
from cudnn_sweep.analysis.storing.store import Store
from cudnn_sweep.analysis.words import (
    counted,
    interval,
    milliseconds,
    percent,
    printable,
    ratio,
    some,
)
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.gating.sides import Side, sides_of, uncommitted
from cudnn_sweep.orchestrator.launching.one_step import LOOKING, plan_step, suite_of
from cudnn_sweep.orchestrator.launching.step_options import GateOptions, TurnOptions
from cudnn_sweep.orchestrator.running.run_sweep import Place, open_results, run_sweep
from cudnn_sweep.orchestrator.showing.say import say, warn
from cudnn_sweep.workloads.cells.config import CudnnConfig
from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.cells.suite import SuiteSpec, UntilDecided, WithoutGpu
from cudnn_sweep.workloads.survey import Survey

SUITE = "gate"
UNTIL = UntilDecided(until="decided", at_most=20)
MEASURE = MeasureSpec(
    reference_replicates=0,
    logged_replicates=0,
    calibrate=False,
    steady_budget_s=1.0,
    device_budget_s=0.3,
)
State = Literal["slower", "broken", "not slower", "faster", "cannot tell yet"]
CODES: dict[State, int] = {
    "not slower": 0,
    "faster": 0,
    "slower": 1,
    "broken": 1,
    "cannot tell yet": 2,
}
SETTINGS_APART = ["torch", "cudnn", "cuda", "driver", "python", "ray", "version"]
NAMED = 3  # kernels

# Of A/A pairs: how often the same rule would have called an equal change slower (`false_alarms`), and the least
# slowdown that it calls slower in four of five cases (`least_found`).
CONTROL = """
with pairs as (
    select log_ratio(candidate_ms, baseline_ms) as log_ratio
    from block_pairs('twin', '0', '1', $sweep_id)
    where pairing = 'paired'
),

scatter as (
    select
        count(log_ratio) as blocks,
        exp(avg(log_ratio)) as ratio,
        nullif(stddev_samp(log_ratio), 0) / sqrt($blocks) as se,
        t_half(count(log_ratio) - 1, 1) as half
    from pairs
)

select
    blocks,
    ratio,
    exp(ln(ratio) - half * se * sqrt($blocks / blocks)) as ratio_low,
    exp(ln(ratio) + half * se * sqrt($blocks / blocks)) as ratio_high,
    t_above(half + ln(1 + $threshold) / se, blocks - 1) as false_alarms,
    exp(ln(1 + $threshold) + (half + 0.8416) * se) - 1 as least_found
from scatter
where blocks > 1
"""
SIDES = """
select
    code,
    {columns},
    any_value(message) as message
from records
where code in ($base, $head)
group by code
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gate:
    """What came of a gate."""

    workload: str
    base: str
    head: str
    gpu: str
    sweep_id: str
    threshold: float
    state: State
    row: Verdict | None = None
    control: AnswerRow | None = None
    """The gate's own error, as CONTROL has it."""
    kernels: Sequence[KernelChange] = ()
    """Of which base and head make different numbers of launches in a step."""
    different: dict[str, tuple[str, str]] = field(default_factory=dict)
    """What else differs: by name, of base and head."""
    messages: dict[str, str] = field(default_factory=dict)
    """Why trials of a side failed, by its label."""

    @property
    def code(self) -> int:
        return CODES[self.state]

    @property
    def headline(self) -> str:
        row = self.row
        if self.state == "broken":
            return f"Broken: {self.workload} does not run at {self.head}."
        if row is None or row.ratio is None:
            return f"Cannot tell yet: {self.workload} has too few blocks with both sides."
        change = f"{ratio(row.ratio)} of the time{interval(row.ratio_low, row.ratio_high)}"
        words = {
            "slower": f"Slower, by more than {percent(self.threshold)}",
            "faster": f"Faster, by more than {percent(self.threshold)}",
            "not slower": f"Not slower than {percent(self.threshold)}",
        }
        return f"{words.get(self.state, 'Cannot tell yet')}: a step takes {change}."

    def facts(self) -> Iterator[tuple[str, str]]:
        row, control = self.row, self.control
        for name, (base, head) in self.different.items():
            yield "Also differs", f"{name}: {base} at base, {head} at head"
        for side, message in self.messages.items():
            yield "Why", f"{side}: {message}"
        if row is not None and row.baseline_ms is not None:
            times = (
                f"{milliseconds(row.baseline_ms)} at base, {milliseconds(row.candidate_ms)} at head"
            )
            yield "A step", f"{times}, in {counted(row.blocks, 'block')} on {self.gpu}"
            if row.device_ratio is not None:
                ends = interval(row.device_ratio_low, row.device_ratio_high)
                yield "GPU time", f"{ratio(row.device_ratio)} of base's{ends}"
        if control is not None:
            ends = interval(control.ratio_low, control.ratio_high)
            yield (
                "A/A",
                f"base against itself {ratio(control.ratio)}{ends}, {counted(control.blocks, 'pair')}",
            )
            if control.false_alarms is not None and control.least_found is not None:
                alarms = f"calls {percent(control.false_alarms, 1)} of changes slower that change nothing"
                least = percent(control.least_found, 1) if control.least_found < 1 else "over 100%"
                yield "This gate", f"{alarms}; finds a slowdown of {least} in four of five"
        if self.kernels:
            changed = [
                f"{each.kernel} ({each.baseline} → {each.candidate})" for each in self.kernels
            ]
            yield "Kernels", some(changed, NAMED)

    def text(self) -> str:
        return "\n".join([self.headline, "", *(f"{name:<13}{text}" for name, text in self.facts())])

    def markdown(self) -> str:
        rows = [f"| {name} | {escaped(text)} |" for name, text in self.facts()]
        return "\n".join([f"**{escaped(self.headline)}**", "", "| | |", "|---|---|", *rows, ""])

    def junit(self) -> str:
        failed = self.code == CODES["slower"]
        suite = ElementTree.Element("testsuite", name="sweep gate", tests="1", errors="0")
        suite.set("failures", str(int(failed)))
        suite.set("skipped", str(int(self.code == CODES["cannot tell yet"])))
        case = ElementTree.SubElement(suite, "testcase", classname="sweep.gate", name=self.workload)
        if self.code:
            kind = "failure" if failed else "skipped"
            ElementTree.SubElement(case, kind, message=self.headline).text = self.text()
        return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)

    def json(self) -> str:
        answer = {"headline": self.headline, **asdict(self)}
        return json.dumps(answer, indent=2, default=vars)


def gate(options: GateOptions, console: Console, place: Place, out: Console) -> int:
    """Measure, print the answer on `out`, and return the exit code."""
    open_results(options.location, console)  # to fail before anything is looked at
    with (
        TemporaryDirectory(prefix="sweep-gate-") as folder,
        sides_of(options.base, options.head, Path(folder)) as (base, head),
    ):
        answer = _measured(options, base, head, console, place)
    for file, text in ((options.comment, answer.markdown()), (options.junit, answer.junit())):
        if file is not None:
            Path(file).write_text(text, encoding="utf-8")
    say(out, answer.json() if options.json else f"\n{answer.text()}")
    return answer.code


def _measured(options: GateOptions, base: Side, head: Side, console: Console, place: Place) -> Gate:
    if uncommitted(options.head):
        warn(console, "Uncommitted changes are not measured: name the folder (.) as HEAD for that.")
    say(console, LOOKING.format(workload=options.workload))
    suite = with_sides(options, suite_of(options, UNTIL, MEASURE), base, head)
    machine = _look(options, suite, (head, base), place)
    planned = plan_step(
        options,
        suite,
        machine,
        suite_name=SUITE,
        minutes=options.minutes,
        codes={side.label: side.code for side in (base, head)},
        min_effect=options.threshold,
    )
    ran = run_sweep(planned, place, console)
    sweep_id = ran.session.sweep_id
    return gate_of(options, ran.store, sweep_id, base.label, head.label, machine.environment.gpu)


def with_sides(options: TurnOptions, suite: SuiteSpec, base: Side, head: Side) -> SuiteSpec:
    """Both sides in each block, and base once more."""
    configs = [CudnnConfig(benchmark=options.benchmark, code=side.label) for side in (base, head)]
    changed = {"configs": configs, "replicates": UNTIL, "twin_every": 1}
    return suite.model_copy(update={**changed, "without_gpu": WithoutGpu()})


def _look(options: GateOptions, suite: SuiteSpec, sides: Sequence[Side], place: Place) -> Survey:
    """What is known of the step from the side that has it. Raises SpecError where neither has."""
    for side in sides:
        with side.entered():
            machine = place.look(suite)
        if machine.workloads[options.workload].fault is None:
            return machine
    raise SpecError(machine.workloads[options.workload].fault or "")


def gate_of(
    options: TurnOptions, store: Store, sweep_id: str, base: str, head: str, gpu: str
) -> Gate:
    """What the store says of a gate's sweep."""
    sides = {"base": base, "head": head}
    contrast = {"field": "code", "baseline": as_text(base), "candidate": as_text(head)}
    rows = verdicts(store, sweep_id, **contrast, min_effect=options.threshold)
    row = max(rows, key=lambda each: each.blocks, default=None)
    columns = ", ".join(f"any_value({name})::text as {name}" for name in SETTINGS_APART)
    with open_database(store, sweep_id) as database:
        found = {
            each["code"]: each
            for each in database.query(SIDES.format(columns=columns), sides).to_pylist()
        }
        kernels = kernel_changes(database, sweep_id, f"code = {literal(head)}", kind=None)
        asked: dict[str, Value] = {
            "sweep_id": sweep_id,
            "threshold": options.threshold,
            "blocks": row.blocks if row else 1,
        }
        controls = database.query(CONTROL, asked).to_pylist()
    one, other = (found.get(side, {}) for side in (base, head))
    return Gate(
        workload=options.workload,
        **sides,
        gpu=gpu,
        sweep_id=sweep_id,
        threshold=options.threshold,
        state=_state(row, one.get("message"), other.get("message")),
        row=row,
        control=next((AnswerRow(**each) for each in controls), None),
        kernels=kernels,
        different={
            name: (str(one[name]), str(other[name]))
            for name in SETTINGS_APART
            if one and other and one[name] != other[name]
        },
        messages={
            side: printable(each["message"])
            for side, each in ((base, one), (head, other))
            if each.get("message")
        },
    )


def _state(row: Verdict | None, base_message: str | None, head_message: str | None) -> State:
    if (row is None or not row.blocks or row.wall_verdict == "fails") and head_message:
        return "cannot tell yet" if base_message and (row is None or not row.blocks) else "broken"
    verdict = None if row is None else row.wall_verdict
    words: dict[str | None, State] = {
        "hurts": "slower",
        "helps": "faster",
        "equivalent": "not slower",
    }
    return words.get(verdict, "cannot tell yet")
