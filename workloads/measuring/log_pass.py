"""The log pass runs a step in an untimed process, and reads which plans cuDNN's frontend logs.

Parts of the lines that torch 2.11 with cuDNN 9.19 writes:

    Tag: ConvFwd_
    EXECUTION_PLAN_DESCRIPTOR : ConvFwd_eng1, numeric_notes:[] behavior_notes:[] workSpaceSize: 9216
    [cudnn_frontend] Verifying ConvFwd_eng1. Blocking.
    [cudnn_frontend] Plan ConvFwd_eng62_k2=0_k13=1 took     0.2688
    [cudnn_frontend] Auto-tuning returns 10 plans.

A line with a tag begins an operation. After a search, PyTorch uses the fastest plan. Without a
search, it uses the last plan. Errata are rules that ban plans. If they ban all plans, cuDNN lists
more plans under a second tag.
"""

import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import torch

from cudnn_sweep.workloads.cells.errata import rules_of
from cudnn_sweep.workloads.cells.measurement import LogPass, Measurement, TimedPlan, TrialRequest
from cudnn_sweep.workloads.find_workload import find_workload
from cudnn_sweep.workloads.measuring.captured import executed
from cudnn_sweep.workloads.measuring.choice import as_written, read_choice
from cudnn_sweep.workloads.measuring.device import find_device
from cudnn_sweep.workloads.measuring.process_setup import apply_request, context_of
from cudnn_sweep.workloads.measuring.step_watch import StepWatch
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.records.measured import LoggedChoice
from cudnn_sweep.workloads.workload import TimedStep

OPERATION = re.compile(r"^Tag: (?P<operation>\w+?)_\s*$")
PLAN = re.compile(
    r"EXECUTION_PLAN_DESCRIPTOR : (?P<engine>[^,\s]+), numeric_notes:\[(?P<numeric>[^]]*)\] "
    r"behavior_notes:\[(?P<behavior>[^]]*)\] workSpaceSize: (?P<workspace>\d+)"
)
BLOCKED = re.compile(r"Verifying (?P<engine>\S+)\. Blocking\.")
TIMED = re.compile(r"Plan (?P<engine>\S+) took\s+(?P<ms>[\d.e+-]+)")

MOST_STEPS = 1000  # largest number of shapes that are read from a regime


@dataclass(slots=True)
class Operation:
    """A cuDNN operation, and the plans that were logged for it at one shape."""

    name: str
    plans: list[LoggedChoice] = field(default_factory=list)
    timed_ms: dict[str, float] = field(default_factory=dict)
    blocked: set[str] = field(default_factory=set)

    @property
    def goes_on(self) -> bool:
        """Whether more plans of the operation follow, because errata blocked the last plan."""
        return bool(self.plans) and not self.timed_ms and self.plans[-1].engine in self.blocked

    def choice(self) -> LoggedChoice:
        engine = min(self.timed_ms, key=self.timed_ms.__getitem__, default=self.plans[-1].engine)
        taken = next(plan for plan in reversed(self.plans) if plan.engine == engine)
        return replace(
            taken,
            plans_built=len(self.plans),
            plans_timed=len(self.timed_ms),
            timed_ms=self.timed_ms.get(engine),
        )

    def timed_plans(self) -> list[TimedPlan]:
        engines = dict.fromkeys(plan.engine for plan in self.plans)
        return [TimedPlan(engine=engine, ms=self.timed_ms.get(engine)) for engine in engines]


def run_log_pass(request: TrialRequest, shapes: int = 0) -> LogPass:
    """Run a step at `shapes` shapes, or at the base shape if 0. Return the plans in cuDNN's log."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "cudnn-frontend.log")
        os.environ["CUDNN_FRONTEND_LOG_INFO"] = "1"  # before the first CUDA call
        os.environ["CUDNN_FRONTEND_LOG_FILE"] = str(log)
        apply_request(request, Measurement())
        device = find_device()
        context = context_of(request.cell, device, request.config)
        step = executed(find_workload(request.cell.workload).step(context), context.execution)
        free_bytes, _ = torch.cuda.mem_get_info()
        base = request.cell.input_shape
        stream = islice(request.cell.shapes().stream(base), MOST_STEPS) if shapes else [base]
        met = list(dict.fromkeys(stream))[: shapes or None]
        for shape in met:
            step.run(step.prepare(shape))
        torch.cuda.synchronize()
        text = log.read_text() if log.exists() else ""
        operations = read_log(text)
        choices = [operation.choice() for operation in operations]
        searched = [operation.plans for operation in operations if operation.timed_ms]
        workspaces = [plan.workspace_bytes for plans in searched for plan in plans]
        calls = _calls(step, met, choices) if shapes else []
        kernels = None if shapes else read_choice(step, base, device)[0].kernels_hash
    return LogPass(
        logged_choices=choices,
        logged_searches=len(searched),
        logged_workspace_bytes=max((choice.workspace_bytes for choice in choices), default=None),
        logged_largest_workspace_bytes=max(workspaces, default=None),
        logged_plans_dropped=sum(workspace > free_bytes for workspace in workspaces),
        kernels_hash=kernels,
        plans=[operation.timed_plans() for operation in operations],
        calls=calls,
        banned_ran=_banned(choices, request.config.errata),
    )


def _calls(step: TimedStep, shapes: Iterable[Shape], choices: list[LoggedChoice]) -> list[int]:
    with StepWatch() as watch:
        for shape in shapes:
            as_written(step)(step.prepare(shape))
    counts = Counter(watch.cudnn_calls)
    is_same = [name for name, _ in counts] == [choice.operation for choice in choices]
    return list(counts.values()) if is_same else []


def _banned(choices: Iterable[LoggedChoice], errata: str | None) -> list[str]:
    rules, version = rules_of(errata), torch.backends.cudnn.version() or 0
    return [
        f"{choice.engine}, which {rule} bans"
        for choice in choices
        for rule in rules
        if rule.bans(choice.engine, version)
    ]


def read_log(text: str) -> list[Operation]:
    """Return the operations of a log that have at least one plan."""
    operations: list[Operation] = []
    for line in text.splitlines():
        last = operations[-1] if operations else None
        if found := OPERATION.match(line):
            if last is None or not last.goes_on or last.name != found["operation"]:
                operations.append(Operation(found["operation"]))
        elif last is None:
            continue
        elif found := PLAN.search(line):
            last.plans.append(
                LoggedChoice(
                    operation=last.name,
                    engine=found["engine"],
                    numeric_notes=_notes(found["numeric"]),
                    behavior_notes=_notes(found["behavior"]),
                    workspace_bytes=int(found["workspace"]),
                )
            )
        elif found := BLOCKED.search(line):
            last.blocked.add(found["engine"])
        elif found := TIMED.search(line):
            last.timed_ms[found["engine"]] = float(found["ms"])
    return [operation for operation in operations if operation.plans]


def _notes(listed: str) -> list[str]:
    """Split a list of notes, and remove prefixes such as `CUDNN_NUMERICAL_NOTE_`."""
    names = [name for name in listed.split(",") if name]
    return [re.sub(r"^CUDNN_\w+?_NOTE_", "", name) for name in names]
