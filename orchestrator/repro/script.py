"""Writes a short script that times a reported case or a trial with torch alone."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from cudnn_sweep.analysis.engine.database import Database
from cudnn_sweep.analysis.engine.queries import literal
from cudnn_sweep.analysis.engine.settings import besides_usual, shortened, texts_of
from cudnn_sweep.analysis.store import schema
from cudnn_sweep.analysis.words import one_line
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.workloads.cells.config import OF_CELL, Config
from cudnn_sweep.workloads.cells.errata import as_json, rules_of
from cudnn_sweep.workloads.cells.field_case import CaseSide, FieldCase
from cudnn_sweep.workloads.layout import WEIGHTS
from cudnn_sweep.workloads.precision import find_precision
from cudnn_sweep.workloads.problem import ConvProblem, sizes_text

MOST_LINES = 40
FLAGS = ("enabled", "benchmark", "benchmark_limit", "deterministic")
WIDTH = 160
GRADIENTS = {"backward_data": "[True, False, False]", "backward_filter": "[False, True, False]"}
KNOWN = {"problem", *(field.name for field in fields(CaseSide))}  # axes that a script can have


@dataclass(frozen=True, kw_only=True, slots=True)
class Reproduced:
    title: str
    address: str | None
    """URL of the report, or None for a trial."""
    sides: Mapping[str, CaseSide]
    """Convolutions that the script times. The key of each is a text that names its settings."""


def of_case(case: FieldCase) -> Reproduced:
    """Prepare a reported case. Raises SpecError if torch alone cannot reproduce it."""
    if not case.is_tested:
        raise SpecError(f"case {case.id} cannot be reproduced here: {case.not_here}")
    sides = case.sides()
    names = case.contrast() if len(sides) == 2 else ("this cell",)
    return Reproduced(
        title=f"{case.id}: {case.claim}",
        address=case.address,
        sides=_checked(f"case {case.id}", dict(zip(names, sides, strict=True))),
    )


def stored_trial(trial_id: str, database: Database) -> Reproduced:
    """Read a trial. Raises SpecError if it is unknown, or if torch alone cannot reproduce it."""
    select = f"select * from records where trial_id = {literal(trial_id)} limit 1"
    rows = database.query(select).to_pylist()
    if rows:
        return of_trial(rows[0])
    raise SpecError(f"found {trial_id!r}: neither a reported case nor a trial in these results")


def of_trial(row: Mapping[str, Any]) -> Reproduced:
    trial = f"trial {row['trial_id']}"
    if row["out_channels"] is None:
        raise SpecError(f"{trial} timed {row['workload']}; a script can time only convolutions")
    for name, axis in schema.axes().items():
        if name not in KNOWN and row[name] not in (None, axis.usual):
            raise SpecError(f"{trial} has {name} {row[name]}, which a script cannot reproduce")
    columns = {field.name: row.get(field.name) for field in fields(ConvProblem)}
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in (columns | {"name": row["problem"] or "problem"}).items()
        if value is not None
    }
    problem = ConvProblem(**given)
    values = {schema.setting_name(column): row[column] for column in schema.settings()}
    config = Config(**values | {"environment": dict(row["environment"] or {})})
    try:
        rules_of(config.errata)
    except ValueError as error:
        raise SpecError(f"{trial} has errata that cannot be read: {error}") from None
    cell = {name: row[name] for name in ("workload", "direction", "precision", "layout", "regime")}
    cell |= {name: value for name in OF_CELL if (value := getattr(config, name)) is not None}
    side = CaseSide(problem=problem, input_shape=problem.input_shape, config=config, **cell)
    texts = besides_usual(texts_of(config.columns()))
    settings = shortened(" ".join(f"{name}={text}" for name, text in texts.items()))
    return Reproduced(
        title=f"{trial}: {problem.name} {side.direction} {sizes_text(side.input_shape)} {side.precision}",
        address=None,
        sides=_checked(trial, {settings or "PyTorch's own settings": side}),
    )


def _checked(name: str, sides: dict[str, CaseSide]) -> dict[str, CaseSide]:
    for side in sides.values():
        if side.problem is None:
            raise SpecError(f"{name} times {side.workload}, a network that torch does not include")
        if side.layout == WEIGHTS:
            raise SpecError(f"{name} has layout {WEIGHTS}: a script has one layout")
        if side.config.execution:
            raise SpecError(f"{name} has execution {side.config.execution}: a script runs eagerly")
        if side.regime != "fixed":
            raise SpecError(f"{name} has several input sizes ({side.regime}): a script has one")
    return sides


def script(case: Reproduced) -> str:
    usual = asdict(Config())
    configs = [asdict(side.config) for side in case.sides.values()]
    flags = [flag for flag in FLAGS if any(config[flag] != usual[flag] for config in configs)]
    settings = {name: _values(side, flags or ["benchmark"]) for name, side in case.sides.items()}
    values = list(settings.values())
    used = [key for key in values[0] if any(setting[key] for setting in values)]
    first = {key: values[0][key] for key in used}
    changes = {
        name: {key: value for key, value in setting.items() if value != values[0][key]}
        for name, setting in settings.items()
    }
    (direction,) = {side.direction for side in case.sides.values()}
    lines = [
        f"# {one_line(case.title)}",
        f"# {case.address or 'A trial of cudnn-sweep.'} Prints: setting, process, ms per step (CUDA events, median), device.",
        "import concurrent.futures, itertools, multiprocessing, os, statistics, timeit, torch",
        *_assigned("CELL", first),
        *_assigned("SETTINGS", changes),
        *_step(direction, has_autocast="autocast" in first),
        *_measure(first),
        *MAIN,
    ]
    assert len(lines) <= MOST_LINES, (case.title, len(lines))
    return "\n".join(lines) + "\n"


def _values(side: CaseSide, flags: Sequence[str]) -> dict[str, Any]:
    problem = side.problem
    assert problem is not None
    precision = find_precision(side.precision)
    names = ["stride", "padding", "dilation", "groups", *["output_padding"] * problem.transposed]
    config = asdict(side.config)
    spatial = len(problem.kernel_size)
    is_backward = side.direction in GRADIENTS
    has_channels_last = side.layout == "channels_last" and spatial > 1
    layout = f"channels_last{'_3d' * (spatial == 3)}" if has_channels_last else "contiguous_format"
    return {
        "operation": f"conv_transpose{spatial}d" if problem.transposed else f"conv{spatial}d",
        "input": side.input_shape,
        "weight": problem.weight_shape,
        "bias": (problem.out_channels,) if problem.bias else None,
        "output": problem.output_shape(side.input_shape) if is_backward else None,
        "sizes": {name: getattr(problem, name) for name in names},
        "dtype": precision.dtype,
        "autocast": precision.autocast,
        "fp32": precision.conv_fp32,
        "layout": layout,
        "backward_in_caller": side.config.backward_in_caller,
        "flags": {name: config[name] for name in flags},
        "environment": side.config.variables,
        "errata": None if side.config.errata is None else as_json(rules_of(side.config.errata)),
    }


def _assigned(name: str, values: Mapping[str, Any]) -> list[str]:
    lines, line = [], f"{name} = {{"
    for key, value in values.items():
        word = f"{key!r}: {value!r}, "
        if len(line) + len(word) > WIDTH and line.strip():
            lines.append(line.rstrip())
            line = "    "
        line += word
    return [*lines, line.rstrip(", ") + "}"]


def _step(direction: str, *, has_autocast: bool) -> list[str]:
    gradient = "    gradient = random(c['output'], c.get('autocast') or c['dtype'])"
    if direction in GRADIENTS:
        return [
            *RANDOM,
            gradient,
            "    s, kind, padding = c['sizes'], gradient.dtype, c['sizes'].get('output_padding')",
            "    sizes = s['stride'], s['padding'], s['dilation'], bool(padding), padding or [0], s['groups']",
            "    operands = gradient, images.to(kind), weight.to(kind), None, *sizes",
            f"    return lambda: torch.ops.aten.convolution_backward(*operands, {GRADIENTS[direction]})",
        ]
    call = "return getattr(torch.nn.functional, c['operation'])(images, weight, bias, **c['sizes'])"
    lines = [*RANDOM, "    def forward():"]
    if has_autocast:
        kind = "getattr(torch, c['autocast'] or 'float16'), enabled=bool(c['autocast'])"
        lines += [f"        with torch.autocast(device, {kind}):", f"            {call}"]
    else:
        lines.append(f"        {call}")
    if direction == "forward":
        return [*lines, "    return torch.no_grad()(forward)"]
    leaves = "[each.requires_grad_() for each in (images, weight, bias) if each is not None]"
    return [
        *lines,
        gradient.replace("c['output']", "forward().shape"),
        f"    return lambda leaves={leaves}: torch.autograd.grad(forward(), leaves, gradient)",
    ]


def _measure(first: Mapping[str, Any]) -> list[str]:
    read = "    c = CELL | SETTINGS[name]"
    if "environment" in first:
        read += "; os.environ.update(c['environment'])"
    if "backward_in_caller" in first:
        read += "; torch.autograd.set_multithreading_enabled(not c['backward_in_caller'])"
    if "errata" in first:
        read += f"; {ERRATA}"
    return ["def measure(name):", read, *MEASURE]


RANDOM = """\
def step_of(c, device):
    def random(shape, dtype):
        values = torch.randn(shape, device=device, dtype=getattr(torch, c['dtype'])).to(getattr(torch, dtype))
        return values.to(memory_format=getattr(torch, c['layout'] if len(shape) > 3 else 'contiguous_format'))
    images, weight, bias = (random(c[key], c['dtype']) if c.get(key) else None for key in ('input', 'weight', 'bias'))
""".splitlines()
ERRATA = (
    "c['errata'] and os.write(file := os.memfd_create('errata'), c['errata'].encode()) and "
    "os.environ.update(CUDNN_ERRATA_JSON_FILE=f'/proc/self/fd/{file}')"
)
MEASURE = """\
    for flag, value in c['flags'].items(): setattr(torch.backends.cudnn, flag, value)
    torch.backends.cudnn.conv.fp32_precision = c['fp32']
    step = step_of(c, device := 'cuda' if torch.cuda.is_available() else 'cpu')
    def loop(run, count):
        if device == 'cpu': return 1e3 * timeit.timeit(run, number=count) / count
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(1_000_000), before.record()  # the device waits until the work is queued
        timeit.timeit(run, number=count), after.record(), after.synchronize()
        return before.elapsed_time(after) / count
    count = max(1, min(1000, round(5 / [loop(step, 3), loop(step, 3)][1])))
    if device == 'cpu': return statistics.median(loop(step, count) for _ in range(20)), 'CPU time, no CUDA'
    with torch.cuda.stream(torch.cuda.Stream()): step(), torch.cuda.synchronize()
    with torch.cuda.graph(graph := torch.cuda.CUDAGraph()): timeit.timeit(step, number=count)
    times = [loop(graph.replay, 1) / count for _ in range(60)]
    return statistics.median(times[20:]), torch.cuda.get_device_name()
""".splitlines()
MAIN = """\
for number, name in itertools.product(range(5), SETTINGS):  # each a fresh process, forked before it touches CUDA
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context('fork')) as fresh:
        print(name, number, *fresh.submit(measure, name).result(), sep='\\t', flush=True)
""".splitlines()
