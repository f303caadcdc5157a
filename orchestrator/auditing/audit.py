"""Audits the user's script, and writes a suite with the input shapes of its model."""

import json
import math
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Literal

from pydantic import TypeAdapter
from ruamel.yaml.comments import CommentedMap

from cudnn_sweep.orchestrator.auditing.traced_suite import WITHOUT_GPU, yaml_text
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.options import AuditRequest
from cudnn_sweep.orchestrator.planning.spelling import program
from cudnn_sweep.orchestrator.process.linux import die_with_parent
from cudnn_sweep.orchestrator.terminal.audit_view import made_at, place_text
from cudnn_sweep.workloads.auditing.begin import END, VARIABLE
from cudnn_sweep.workloads.auditing.findings import Argument, Convolution, Findings, Model, Sizes
from cudnn_sweep.workloads.cells.listed_shapes import COUNT, MOST_ROWS
from cudnn_sweep.workloads.measuring.tracing import Direction
from cudnn_sweep.workloads.models.inputs import WHOLE
from cudnn_sweep.workloads.problem import MOST_SIZES, named_sizes, sizes_text, space_names

FINDINGS = "findings.json"
START = "sitecustomize.py"  # Python imports a module of this name before it runs the script
START_TEXT = """\
import os, sys
before = {*sys.modules}
from cudnn_sweep.workloads.auditing.begin import begin
begin(os.path.dirname(__file__), before)
"""
REPEAT_S = 5.0  # between signals to a script that does not end at its limit
GRACE_S = 30.0  # for the script to end and to save its findings
LOOK_S = 0.5  # between checks of the script's processes
SIGNALLED = 128  # A shell adds a signal's number to this to make an exit code.
WATCHED = {signal.SIGINT, signal.SIGTERM, signal.SIGCHLD}

Ended = Literal["itself", "limit", "interrupt", "signal"]

WRITTEN_BY_US = "# Written by sweep audit"
MAIN = "__main__"
HALF = {"bfloat16": "bf16", "float16": "fp16"}
REPLICATING = "DataParallel"  # calls a copy of the model on each GPU
BELOW = 2  # placeholder for the number of classes or tokens


class Others:
    """Descendants of a script that have loaded torch. They are found in /proc."""

    def __init__(self) -> None:
        self._loaded: set[int] = set()
        self.found: set[int] = set()

    def look(self, process: int, parent: bytes | None = None) -> None:
        """Add the process and its descendants with torch, except compile workers and forks."""
        with suppress(OSError):  # the process has ended
            command = _read(process, "cmdline")
            began = command + _read(process, "environ")
            # A fork has the command line and environment of its parent.
            has_torch = began == parent or process in self._loaded
            if not has_torch and b"/libtorch_python" in _read(process, "maps"):
                self._loaded.add(process)
                if b"/_inductor/" not in command:  # compile workers have it
                    self.found.add(process)
            for thread in os.listdir(f"/proc/{process}/task"):
                for child in _read(process, f"task/{thread}/children").split():
                    self.look(int(child), began if has_torch else None)


def _read(process: int, file: str) -> bytes:
    return Path("/proc", str(process), file).read_bytes()


@dataclass(frozen=True, kw_only=True, slots=True)
class Audited:
    request: AuditRequest
    ended: Ended
    """Cause of the script's end. The limit is --seconds or --steps."""
    exit_code: int
    """Exit code of the script, as a shell reports it. It is 0 if a limit ended the script."""
    findings: Findings | None
    """Findings of the audit, or None if the script ended before it saved them."""
    others: int
    """Number of descendant processes that loaded torch or set a flag but were not audited."""

    @property
    def unseen(self) -> str | None:
        """Message on how to audit the `others`, or None if there are no others."""
        if not self.others:
            return None
        arguments = self.request.arguments if self.request.is_module else ()
        at = next((at for at, word in enumerate(arguments) if word.endswith(".py")), None)
        of_rank = "RANK.py" if at is None else shlex.join(arguments[at:])
        return (
            f"The script started processes with torch ({self.others}). The audit did not see them "
            "or the flags that they set. Audit what each of them runs: "
            f"`torchrun --nproc-per-node {self.others} --no-python {program()} audit {of_rank}`."
        )


def audit_script(request: AuditRequest) -> Audited:
    """Run the script and audit it. Raises SpecError for a missing file or a notebook."""
    script = request.script
    if script.endswith(".ipynb"):
        raise SpecError(f"{script} is a notebook; run `jupyter nbconvert --to script {script}`")
    if not request.is_module and not Path(script).exists():
        raise SpecError(f"{script}: no such file; allowed: a Python script, or -m MODULE")
    with tempfile.TemporaryDirectory(prefix="sweep-audit-") as folder:
        Path(folder, START).write_text(START_TEXT, encoding="utf-8")
        command = [sys.executable, *["-m"] * request.is_module, script, *request.arguments]
        with_torch = Others()
        # Block signals, so that `_wait` receives them.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
        try:
            process = subprocess.Popen(  # safe because this process has one thread
                command,
                env=_environment(request, Path(folder)),
                preexec_fn=_in_the_child,  # noqa: PLW1509
            )
            signalled = _wait(process, request.seconds, with_torch)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        file = Path(folder, FINDINGS)
        forked = {int(mark.suffix[1:]) for mark in Path(folder).glob(f"{FINDINGS}.[0-9]*")}
        unseen = len((with_torch.found | forked) - {process.pid})
        findings = TypeAdapter(Findings).validate_json(file.read_bytes()) if file.exists() else None
    ended, code = _ended(process.returncode, findings, signalled)
    return Audited(request=request, ended=ended, exit_code=code, findings=findings, others=unseen)


def _environment(request: AuditRequest, folder: Path) -> dict[str, str]:
    theirs = os.environ.get("PYTHONPATH")
    settings = {
        "findings": str(folder / FINDINGS),
        "steps": request.steps,
        "python_path": theirs,
        "modules": "." if request.is_module else os.path.dirname(os.path.realpath(request.script)),
    }
    path = os.pathsep.join(filter(None, (str(folder), theirs)))
    return {**os.environ, "PYTHONPATH": path, VARIABLE: json.dumps(settings)}


def _in_the_child() -> None:
    die_with_parent()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)


def _wait(process: "subprocess.Popen[bytes]", seconds: float | None, started: Others) -> int | None:
    """Wait for the script, and end it after `seconds`. Return the last signal that arrived."""
    asks_at = math.inf if seconds is None else monotonic() + seconds
    kills_at = math.inf
    last: int | None = None
    while process.poll() is None:
        now = monotonic()
        if now >= min(asks_at, kills_at):
            process.send_signal(signal.SIGKILL if now >= kills_at else END)
            asks_at, kills_at = now + REPEAT_S, min(kills_at, now + GRACE_S)
        started.look(process.pid)
        came = signal.sigtimedwait(WATCHED, min(LOOK_S, max(0.0, asks_at - monotonic())))
        if came is None or came.si_signo == signal.SIGCHLD:
            continue
        last = came.si_signo
        if last == signal.SIGTERM:
            asks_at = min(asks_at, monotonic())
        elif came.si_code <= 0:  # a terminal sends its signals to the script, too
            process.send_signal(last)
    return last


def _ended(code: int, findings: Findings | None, signalled: int | None) -> tuple[Ended, int]:
    """Return what ended the script, and the exit code that a shell reports for Popen's `code`."""
    as_shell = code if code >= 0 else SIGNALLED - code
    if signalled is not None:
        return "interrupt", SIGNALLED + signalled if signalled == signal.SIGTERM else as_shell
    if findings is not None and findings.limit_reached:
        return "limit", 0
    return ("signal" if code < 0 else "itself"), as_shell


@dataclass(frozen=True, kw_only=True, slots=True)
class Inputs:
    """Input shapes of a model in training or inference. Only batch and spatial sizes differ."""

    model: Model
    direction: Direction
    usual: Sizes
    """The most frequent shape."""
    counts: tuple[tuple[Sizes, int], ...]
    """Shapes with their numbers of calls. The most frequent shape comes first."""
    left_out: int
    """Number of calls whose shapes are not in `counts`."""

    @property
    def training(self) -> bool:
        return self.direction == "training"


def model_inputs(findings: Findings, name: str | None) -> Inputs | None:
    """Return the inputs of the first model that has any. `name` is a class or FILE.py:LINE."""
    models = (model for model in findings.models if name in (None, model.name, made_at(model)))
    return next(filter(None, map(_inputs, models)), None)


def _inputs(model: Model) -> Inputs | None:
    is_training = any(seen.training for seen in model.shapes)
    direction: Direction = "training" if is_training else "inference"
    calls = {seen.shape: getattr(seen, direction) for seen in model.shapes}
    by_kind: dict[tuple[int, int | None], Counter[Sizes]] = defaultdict(Counter)
    for shape, count in calls.items():  # a file has shapes with the same number of channels
        if count and len(shape) <= MOST_SIZES and 0 not in shape:
            by_kind[len(shape), named_sizes(shape).get("channels")][shape] = count
    if not by_kind:
        return None
    listed = max(by_kind.values(), key=Counter.total).most_common(MOST_ROWS)
    return Inputs(
        model=model,
        direction=direction,
        usual=listed[0][0],
        counts=tuple(listed),
        left_out=sum(calls.values()) - sum(count for _, count in listed),
    )


def shapes_text(inputs: Inputs, script: str) -> str:
    """Return the shapes and counts as a CSV file for `regime: {listed: {file: ...}}`."""
    columns = [*(name for name in named_sizes(inputs.usual) if name != "channels"), COUNT]
    table = (named_sizes(shape) | {COUNT: count} for shape, count in inputs.counts)
    rows = [",".join(str(row[name]) for name in columns) for row in table]
    calls = "training steps" if inputs.training else "calls"
    head = f"{WRITTEN_BY_US}: inputs of {inputs.model.name} in {calls} of {script}"
    return "\n".join([head, ",".join(columns), *rows]) + "\n"


def suite_text(inputs: Inputs, findings: Findings, shapes: Path) -> str | None:
    """Return a suite with the model and its shapes, or None if it cannot refer to the model."""
    workload = _workload(inputs.model)
    if workload is None:
        return None
    regime = CommentedMap(listed={"file": shapes.name})
    regime.fa.set_flow_style()
    cell = CommentedMap(workload=workload, input=sizes_text(inputs.usual), regime=regime)
    cell["direction"] = inputs.direction
    model = {
        "arguments": inputs.model.made and inputs.model.made.arguments,
        "inputs": called_with(inputs.model, inputs.training, space_names(inputs.usual))[0],
        "loss": "own" if inputs.model.own_loss and inputs.training else None,
        "expect": _expected(inputs),
    }
    if model := {key: value for key, value in model.items() if value}:
        cell["model"] = model
    if findings.convolutions:
        usual = max(findings.convolutions, key=lambda convolution: convolution.calls)
        if precision := _precision(usual):
            cell["precision"] = precision
        cell["layout"] = usual.memory_format
    head = [f"{WRITTEN_BY_US}: {inputs.model.name} with the shapes in {shapes.name}"]
    if "below" in str(model):
        head.append("# Replace the value of `below` by the number of classes or tokens.")
    head += [f"# {needed}" for needed in what_to_add(inputs)]
    return "\n".join([*head, yaml_text({"cells": [cell], "without_gpu": WITHOUT_GPU})])


def what_to_add(inputs: Inputs) -> list[str]:
    """Return advice on what the user must add before the suite can run."""
    model, lacking = inputs.model, []
    remedy = _what_to_name(model)
    if model.made is None:
        lacking.append(f"{model.name} is a copy of another model. {remedy}")
    elif model.made.others:
        values = ", ".join(model.made.others)
        lacking.append(f"{model.name} is made from {values}, which suites cannot contain. {remedy}")
    lacking += what_it_takes(model, inputs.training, space_names(inputs.usual))
    file = model.file if model.module == MAIN else None
    if file and MAIN not in Path(file).read_text("utf-8", "replace"):
        guard = 'Put the training under `if __name__ == "__main__":`'
        lacking.append(f"{os.path.relpath(file)} trains when it is imported. {guard}")
    return lacking


def what_it_takes(model: Model, training: bool, space: Sequence[str] = ()) -> list[str]:
    """Return advice on arguments that no suite can describe. `space` has names of spatial sizes."""
    _, obstacles = called_with(model, training, space)
    what_to_do = (
        f"{model.name} takes arguments that a suite cannot describe: {', '.join(obstacles)}. "
        "If these arguments matter, write a function that makes all inputs. Name it in the cell's "
        "`model`: `inputs: FILE.py:NAME`"
    )
    return [what_to_do] * bool(obstacles)


def why_no_suite(model: Model) -> str:
    reason = "a class of torch" if _is_of_torch(model) else "not a top-level class of a file"
    return f"A suite cannot refer to {model.name} because it is {reason}. {_what_to_name(model)}"


def _is_of_torch(model: Model) -> bool:
    return model.module.partition(".")[0] == "torch"


def _what_to_name(model: Model) -> str:
    """Return advice on how a suite can refer to the model."""
    code, name = "the code that makes it", "FILE.py:NAME"
    if model.made is not None:
        code = f"the code at {place_text(model.made.at)}"
        name = f"{os.path.relpath(model.made.at.file)}:NAME"
    return f"Put {code} into a function that returns the model, and name it: `workload: {name}`"


def _expected(inputs: Inputs) -> dict[str, int]:
    model = inputs.model
    in_a_call = [count for recorded, count in model.in_a_call if recorded == inputs.training]
    is_told = not model.unseen and model.wrapped_in != REPLICATING and len(in_a_call) == 1
    expected = {"parameters": model.elements, "convolutions": in_a_call[0] if is_told else 0}
    return {name: count for name, count in expected.items() if count}


def _workload(model: Model) -> str | None:
    """Return FILE.py:NAME or MODULE:NAME of the model, or None if it has no such name."""
    if "." in model.name or _is_of_torch(model):  # a class in a function also has a dot
        return None
    if model.file is not None and Path(model.file).is_relative_to(Path.cwd()):
        return f"{os.path.relpath(model.file)}:{model.name}"
    if model.module != MAIN:
        return f"{model.module}:{model.name}"
    return f"{model.file}:{model.name}" if model.file else None


def _precision(usual: Convolution) -> str | None:
    if usual.dtype == "float32":
        return "tf32" if usual.allow_tf32 else "fp32"
    name = HALF.get(usual.dtype)
    return f"amp_{name}" if name and usual.autocast_at_first else name


def check_may_write(file: Path) -> None:
    """Raise SpecError if the file exists and was not written by an audit."""
    if file.exists():
        with file.open(encoding="utf-8", errors="replace") as stream:
            if not stream.readline().startswith(WRITTEN_BY_US):
                remedy = "choose another file with --shapes"
                raise SpecError(f"{file} exists, and no audit wrote it; {remedy}")


def called_with(model: Model, training: bool, space: Sequence[str]) -> tuple[Any, list[str]]:
    """Return a suite's `inputs`, or None, and the arguments that no suite can describe."""
    of_direction = (argument for argument in model.arguments if argument.training == training)
    given = [arg for arg in of_direction if arg.kind != "NoneType" or isinstance(arg.name, int)]
    by_place = all(isinstance(argument.name, int) for argument in given)
    tensors: dict[str | int, Any] = {}
    obstacles: list[str] = []
    for argument in given:
        name, key = argument.name, argument.key
        if isinstance(name, int) and name < len(model.parameters):
            name = model.parameters[name]
        tensor = _tensor(argument, space)
        if key is not None and (not by_place or "." in key):
            tensor = "in a dict"
        if isinstance(tensor, str):
            obstacles.append(f"{name}{'' if key is None else f'[{key!r}]'} ({tensor})")
        elif key is None:
            tensors[argument.name if by_place else name] = tensor
        else:
            tensors.setdefault(argument.name, {})[key] = tensor
    is_plain = [(arg.name, arg.key, "float" in arg.kind) for arg in given] == [(0, None, True)]
    if is_plain or not tensors or (by_place and obstacles):
        return None, obstacles
    return (list(tensors.values()) if by_place else tensors), obstacles


def _tensor(given: Argument, space: Sequence[str]) -> CommentedMap | str:
    """Return a suite's description of a tensor, or the reason why there is none."""
    if given.shape is None or not ("float" in given.kind or given.kind in (*WHOLE, "bool")):
        return given.kind
    sizes = [_size(place, given.shape, space) for place in range(len(given.shape))]
    if None in sizes:
        return "sizes unrelated to those of the first tensor"
    tensor = CommentedMap(shape=sizes)
    if "float" not in given.kind:
        tensor["dtype"] = given.kind
    if given.kind in WHOLE:
        tensor["below"] = BELOW
    tensor.fa.set_flow_style()
    return tensor


def _size(at: int, shape: Sequence[Sequence[int | str]], space: Sequence[str]) -> str | int | None:
    """Return the number or name of a tensor's size in dimension `at`, or None if it varies."""
    tail = zip(space, shape[-len(space) :], strict=False)
    from_end = at - len(shape)
    if at > 0 and -from_end <= len(space) and all(name in sizes for name, sizes in tail):
        return space[from_end]
    if at == 0 and "batch" in shape[0]:
        return "batch"
    return next((size for size in shape[at] if size != 0), None)
