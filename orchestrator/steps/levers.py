"""Chooses the settings that `sweep advise` races (levers), and writes the lines to paste."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any, TypeAlias

from cudnn_sweep.analysis.engine.settings import besides_usual
from cudnn_sweep.analysis.results.advice import Advice
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.steps.step_options import AdviseOptions
from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.executable import execution_fault, scaling_fault
from cudnn_sweep.workloads.execution import EAGER
from cudnn_sweep.workloads.precision import PRECISIONS
from cudnn_sweep.workloads.survey import Survey

Change: TypeAlias = tuple[str, str]
"""A lever and its value."""
Changes: TypeAlias = tuple[Change, ...]
"""Sorted differences from the user's config. Empty for the user's own config."""
FaultOf: TypeAlias = Callable[[Changes], str | None]
OWN: Changes = ()
BENCHMARK: Changes = (("benchmark", "true"),)
MOST = 6  # configs of a stage
OF_STEP = ("layout", "precision")  # levers that are also options of a step
CHANNELS_LAST = {4: "torch.channels_last", 5: "torch.channels_last_3d"}

GRAPH = """\
static, side = batch.clone(), torch.cuda.Stream()    # batch is a batch on the GPU
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3): step(static)                  # your step, without calls such as .item()
torch.cuda.current_stream().wait_stream(side)
optimizer.zero_grad(set_to_none=True)                # for training; Adam needs capturable=True
with torch.cuda.graph(graph := torch.cuda.CUDAGraph()): loss = step(static)
static.copy_(batch); graph.replay()                  # repeat this line for each further batch"""
FLOAT32 = (
    "torch.backends.cudnn.conv.fp32_precision = torch.backends.cudnn.rnn.fp32_precision = '{}'"
)
AUTOCAST = (
    "model.forward = torch.autocast('cuda', torch.{})(model.forward)  # autocast the loss, too{}"
)
LINES: Mapping[Change, str] = {
    ("benchmark", "true"): "torch.backends.cudnn.benchmark = True",
    ("layout", "contiguous"): "# remove .to(memory_format=...)",
    ("layout", "channels_last"): (
        "model, batch = (part.to(memory_format={channels_last}) for part in (model, batch))"
    ),
    ("precision", "fp32"): FLOAT32.format("ieee"),
    ("precision", "tf32"): FLOAT32.format("tf32"),
    ("precision", "bf16"): "model, batch = model.bfloat16(), batch.bfloat16()",
    ("precision", "fp16"): "model, batch = model.half(), batch.half()",
    ("precision", "amp_bf16"): AUTOCAST.format("bfloat16", ""),
    ("precision", "amp_fp16"): AUTOCAST.format("float16", "; scale the loss"),
    ("execution", "cuda_graph"): GRAPH,
    ("execution", "compile"): "model = torch.compile(model)",
    ("execution", "reduce_overhead"): "model = torch.compile(model, mode='reduce-overhead')",
}
"""Lines to paste for each value of each lever, in the order in which a program needs them."""
LEVERS = tuple(dict.fromkeys(lever for lever, _ in LINES))


def lines_of(changes: Changes, dimensions: int, options: AdviseOptions) -> list[str]:
    """Return the lines to paste for an input with this number of dimensions."""
    text = "\n".join(lines for change, lines in LINES.items() if change in changes)
    lines = text.format(channels_last=CHANNELS_LAST.get(dimensions, "")).splitlines()
    if "precision" in dict(changes) and options.precision not in ("fp32", "tf32"):
        lines.insert(0, f"# remove the code that now sets {options.precision}")
    if options.inputs:
        lines.insert(0, "# batch stands for each input of the model")
    is_inference = options.direction == "inference"
    return [line for line in lines if not (is_inference and line.startswith("optimizer."))]


def freeze_command(changes: Changes, options: AdviseOptions) -> str:
    """Return a `sweep freeze` command with the layout and precision of `changes`."""
    of_step: dict[str, Any] = {lever: text for lever, text in changes if lever in OF_STEP}
    step = replace(options, levers=None, allow=None, same_bits=False, **of_step)
    return step.command("freeze")


def config_of(changes: Changes) -> Config:
    values: dict[str, str | bool] = {**dict(changes)}
    return Config(**values | {"benchmark": values.get("benchmark") == "true"})  # type: ignore[arg-type]


def changes_of(settings: str) -> Changes:
    """Return the changes of a config. `settings` is a text from the column `settings`."""
    pairs = (pair.split("=", 1) for pair in settings.split())  # values of levers are plain words
    return tuple(sorted(besides_usual(dict(pairs)).items()))


def name_of(changes: Changes) -> str:
    names = [text if lever != "benchmark" else lever for lever, text in changes]
    return " + ".join(names) or "as it is"


def named_changes(options: AdviseOptions) -> list[Change]:
    """Return the changes that the options request. Raises SpecError if a name is unknown."""
    levers = options.levers.split(",") if options.levers else LEVERS
    allowed = options.allow.split(",") if options.allow else []
    for option, names, known in (("levers", levers, LEVERS), ("allow", allowed, PRECISIONS)):
        if wrong := [name for name in names if name not in known]:
            raise SpecError(f"--{option}: found {wrong[0]!r}, allowed: {', '.join(known)}")
    named = [
        (lever, text)
        for lever, text in LINES
        if (text in allowed if lever == "precision" else lever in levers)
        and text != getattr(options, lever, EAGER)
    ]
    return sorted(named, key=lambda change: change[0] == "precision")  # precisions are raced last


def offered(options: AdviseOptions, fault_of: FaultOf) -> tuple[list[Change], dict[str, str]]:
    """Return the changes to race, and why others are omitted. Raises SpecError if none is left."""
    named = named_changes(options)
    faults = {change: fault_of((change,)) for change in named}
    out = {name_of((change,)): fault for change, fault in faults.items() if fault}
    if len(out) == len(named):
        reasons = "; ".join(f"{text}: {why}" for text, why in out.items())
        raise SpecError(f"nothing to race: {reasons or '--allow must name another precision'}")
    if not options.allow:
        out["another precision"] = "raced only with --allow, such as --allow amp_bf16"
    return [change for change in named if not faults[change]], out


def next_configs(
    rows: Mapping[Changes, Advice | None],
    offered: Sequence[Change],
    fault_of: FaultOf = lambda changes: None,
) -> list[Changes]:
    """Return up to MOST configs for the next stage, or [] if the race is over.

    `rows` has None for a config that failed or is not allowed. The first stage tries each value
    alone. Later ones combine the values that help, and change one lever of the fastest config.
    """
    if OWN in rows:
        return []
    if not rows:
        quick = [change for change in offered if not config_of((change,)).how.compiles]
        return [OWN, *((change,) for change in quick or offered)][:MOST]
    timed = {changes: row for changes, row in rows.items() if row is not None}
    own_ms = median([row.baseline_ms for row in timed.values()] or [0.0])
    times = {OWN: own_ms} | {changes: row.candidate_ms for changes, row in timed.items()}
    best = min(times, key=times.__getitem__)
    failed = {changes[0] for changes, row in rows.items() if row is None and len(changes) == 1}
    alone = [
        (row.step_ratio, *changes)
        for changes, row in timed.items()
        if len(changes) == 1 and (row.step_ratio_high or 1) < 1
    ]
    nearby = [
        dict(change for _, change in sorted(alone, reverse=True)),  # by lever, the fastest last
        *({**dict(best), lever: text} for lever, text in offered),
        *(dict(change for change in best if change != without) for without in best),
    ]
    new = [
        each
        for each in (tuple(sorted(changes.items())) for changes in nearby)
        if each not in {OWN, *rows} and not failed & {*each} and not fault_of(each)
    ]
    return list(dict.fromkeys([OWN, best, *new]))[:MOST] if new else []


def fault_of(changes: Changes, cell: Cell, machine: Survey) -> str | None:
    """Return why a config cannot run the step, or None if no reason is known."""
    dimensions = len(cell.input_shape)
    if "layout" in dict(changes) and dimensions not in CHANNELS_LAST:
        return f"an input of {dimensions} dimensions has only one layout"
    config, traits = config_of(changes), machine.workloads[cell.workload]
    device, compiler = machine.environment.device, machine.compiler
    return execution_fault(cell, config, traits, device=device, compiler=compiler)


def fault_together(changes: Changes, options: AdviseOptions) -> str | None:
    """Return why these changes cannot be combined, or None if they can."""
    config = config_of(changes)
    direction = "inference" if options.direction == "inference" else "training"
    return scaling_fault(config, config.precision or options.precision, direction)
