"""Options of `sweep advise` and similar commands."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import typer

from cudnn_sweep.analysis.results.min_effect import MIN_EFFECT
from cudnn_sweep.orchestrator.planning.options import WaitOption
from cudnn_sweep.orchestrator.planning.spelling import POSITIONAL, AtLeast, program, words_of

if TYPE_CHECKING:
    from pydantic import JsonValue

    from cudnn_sweep.orchestrator.planning.session import Job

WRITE = (
    "Also write the answer to FILE. Its name ends in .md, .html, .json, .txt, .xml (JUnit) or "
    ".prom (OpenMetrics). Can be repeated."
)
MinutesOption = Annotated[
    float, AtLeast(0.1), "Time limit in minutes. The measurement ends earlier if it is decided."
]
MinEffectOption = Annotated[
    float, typer.Option(min=0.001, max=1.0, help="Smallest slowdown to report: 0.01 means 1%.")
]


@dataclass(frozen=True, kw_only=True)
class _Model:
    workload: Annotated[
        str,
        POSITIONAL,
        "MODEL",
        "What to measure, given as file.py:name or package.module:name. It is an nn.Module, its "
        "class, a function that returns a module, a function of a torch.Tensor, or a @workload.",
    ]
    input: Annotated[Sequence[str], "SIZES", "Sizes of the input, such as 8x3x512x512."] = ()


@dataclass(frozen=True, kw_only=True)
class StepOptions(_Model):
    argument: Annotated[
        Sequence[str],
        "NAME=VALUE",
        "Keyword argument of the class or function. VALUE is JSON or plain text. Can be repeated.",
    ] = ()
    inputs: Annotated[
        str | None,
        "YAML",
        "Arguments of a model that does not take a single float tensor, such as "
        "'{input_ids: {shape: [batch, length], dtype: int64, below: 30522}}'. Give a list for "
        "positional arguments, or file.py:name for a function of your own.",
    ] = None
    loss: Annotated[
        str | None,
        "mean_square, cross_entropy, own (the model returns it), or file.py:name for your own.",
    ] = None
    expect: Annotated[
        str | None,
        "COUNTS",
        "Expected counts of the model, such as parameters=223685,convolutions=7.",
    ] = None
    precision: Annotated[str, "fp32, tf32, bf16, fp16, amp_bf16 or amp_fp16."] = "tf32"
    layout: Annotated[
        str, "contiguous, channels_last, or weights (only the parameters are channels_last)."
    ] = "contiguous"
    direction: Annotated[str | None, "training (default) or inference."] = None
    results: Annotated[
        str | None, "Folder or URL of results. Default: `results` in ./cluster.yaml, or ./results."
    ] = None
    wait: WaitOption = False
    program: str = field(default_factory=program)
    began: float = field(default_factory=monotonic)

    @property
    def measures_nothing(self) -> bool:
        """Whether the answer comes from stored results."""
        return False

    @property
    def arguments(self) -> dict[str, "JsonValue"]:
        return dict(map(_read, self.argument))

    @property
    def location(self) -> str:
        from cudnn_sweep.orchestrator.planning.spec import results_of_the_launch_file

        return self.results or results_of_the_launch_file()

    def where(self) -> list[str]:
        return [] if self.results is None else ["--results", self.results]


@dataclass(frozen=True, kw_only=True)
class _Answer:
    json: Annotated[bool, "Print the answer as JSON."] = False
    write: Annotated[Sequence[str], "FILE", WRITE] = ()


@dataclass(frozen=True, kw_only=True)
class _Job(_Model):
    steps: Annotated[int | None, AtLeast(1), "Number of steps of your job.  [default: 10000]"] = (
        None
    )
    hours: Annotated[
        float | None, AtLeast(0.0001), "Duration of your job with benchmark off. Replaces --steps."
    ] = None
    regime: Annotated[
        str | None, "YAML", "How input sizes change, such as fresh or '{cycle: {sizes: 4}}'."
    ] = None
    shapes: Annotated[
        str | None,
        "FILE.csv",
        "Input sizes of your data and how often each occurs: batch,height,width,count.",
    ] = None
    state: Annotated[
        Literal["container", "warm"],
        "Whether your job starts in a new container, where CUDA compiles its kernels again, or on "
        "a warm machine.",
    ] = "container"
    minutes: Annotated[
        float | None,
        AtLeast(0.1),
        "Time limit in minutes. The measurement ends earlier if it is decided.  "
        "[default: 20, or 3 to compare only benchmark off and on]",
    ] = None
    memory_limit: Annotated[
        float | None, AtLeast(0.001), "GIB", "Reject settings that need more GPU memory than this."
    ] = None
    runs: Annotated[int, AtLeast(1), "Predict the mean time of this number of runs."] = 1
    ranks: Annotated[
        int | None, AtLeast(2), "Also predict the time that this many ranks lose by waiting."
    ] = None
    measure_ranks: Annotated[
        int | None, AtLeast(2), "Measure the step as one job on this many GPUs of this host."
    ] = None


@dataclass(frozen=True, kw_only=True)
class AdviseOptions(_Answer, StepOptions, _Job):
    kind: ClassVar[str] = "advise"
    """Name of the command, and of its answer."""
    levers: Annotated[
        str | None,
        "NAMES",
        "Settings to race. Default: benchmark,layout,execution. `benchmark` alone: only off and on.",
    ] = None
    allow: Annotated[str | None, "NAMES", "Also race these precisions, such as tf32,amp_bf16."] = (
        None
    )
    same_bits: Annotated[bool, "Allow only configs that compute the same bits as yours."] = False
    freeze: Annotated[
        str | None, "FILE.json", "Also measure the step with this file, which `sweep freeze` wrote."
    ] = None
    from_store: Annotated[bool, "Answer from stored results without measuring."] = False
    reference: Annotated[bool, "Answer for a bundled network from the installed results."] = False

    @property
    def measures_nothing(self) -> bool:
        return self.from_store or self.reference

    @property
    def races(self) -> bool:
        """Whether the command races levers. If not, it compares benchmark off and on."""
        is_of_benchmark = self.freeze or self.ranks or self.measure_ranks or self.reference
        return not is_of_benchmark and bool(self.levers != "benchmark" or self.allow)

    @property
    def limit_minutes(self) -> float:
        return self.minutes or (20.0 if self.races else 3.0)

    @property
    def job(self) -> "Job":
        from cudnn_sweep.orchestrator.planning.session import DEFAULT_STEPS, Job

        return Job(
            steps=self.steps or DEFAULT_STEPS,
            hours=self.hours,
            state=self.state,
            memory_limit_gib=self.memory_limit,
            runs=self.runs,
        )

    def command(self, kind: str | None = None) -> str:
        """Return a shell command with these options. `kind` replaces the name of the command."""
        return shlex.join([self.program, kind or self.kind, *self._words()])

    @property
    def again(self) -> str:
        """Shell command that repeats the answer without measuring."""
        return f"{self.command()} --from-store"

    def _words(self) -> list[str]:
        once = ("minutes", "from_store", "json", "write", "output", "float64", "check", "wait")
        return words_of(self, without=once)


@dataclass(frozen=True, kw_only=True)
class FreezeOptions(AdviseOptions):
    kind: ClassVar[str] = "freeze"
    minutes: Annotated[
        float, AtLeast(0.1), "Time limit in minutes for the comparison that follows the search."
    ] = 5.0
    # `sweep freeze` does not have these options
    levers: Literal["benchmark"] = "benchmark"
    allow: None = None
    same_bits: Literal[False] = False
    freeze: None = None
    from_store: Literal[False] = False
    reference: Literal[False] = False
    output: Annotated[str | None, "FILE.json", "File to write.  [default: MODEL.json]"] = None
    float64: Annotated[bool, "Also compare each config's results with results in float64."] = False
    check: Annotated[
        str | None,
        "FILE.json",
        "Check which plans of this file the step still uses, and how fast it is.",
    ] = None

    @property
    def file(self) -> Path:
        return Path(self.output or f"{self.workload.rpartition(':')[2].rpartition('.')[2]}.json")

    @property
    def again(self) -> str:
        words = [*self._words(), "--freeze", str(self.file), "--from-store"]
        return shlex.join([self.program, "advise", *words])


@dataclass(frozen=True, kw_only=True)
class _Sides:
    base: Annotated[str, POSITIONAL, "BASE", "Old code: a commit, a folder, a wheel, or a Python."]
    head: Annotated[
        str, POSITIONAL, "HEAD", "The changed code, such as a commit, or . for the working tree."
    ]


@dataclass(frozen=True, kw_only=True)
class TurnOptions(_Answer, StepOptions):
    """Options of `sweep gate`, `sweep bisect` and `sweep bans`."""

    regime: None = None  # these commands have no --regime and no --shapes
    shapes: None = None
    benchmark: Annotated[bool, "Turn on benchmark."] = False
    min_effect: MinEffectOption = 0.01
    minutes: MinutesOption = 2.5

    @property
    def limit_minutes(self) -> float:
        return self.minutes


@dataclass(frozen=True, kw_only=True)
class CellsOptions(TurnOptions):
    """Options that choose a suite's cells or a model's step."""

    workload: Annotated[str, POSITIONAL, "SUITE|MODEL", "A suite, or a model as file.py:name."]
    only: Annotated[
        Sequence[str], "FIELD=VALUE", "Measure only these cells of a suite, such as cell_id=..."
    ] = ()


@dataclass(frozen=True, kw_only=True)
class BansOptions(CellsOptions):
    min_effect: MinEffectOption = MIN_EFFECT
    minutes: MinutesOption = 10.0


@dataclass(frozen=True, kw_only=True)
class BisectOptions(CellsOptions):
    pythons: Annotated[str, "A,B,...", "Pythons of the environments, the oldest first."]


@dataclass(frozen=True, kw_only=True)
class GateOptions(TurnOptions, _Sides):
    exact: Annotated[
        bool, "Compare with BASE itself instead of the merge base of BASE and HEAD."
    ] = False
    cannot_tell: Annotated[
        Literal["ok", "fail"], "Result of an undecided gate. The exit code is 0 for ok, 3 for fail."
    ] = "fail"
    comment: Annotated[str | None, typer.Option(hidden=True)] = None  # replaced by --write
    junit: Annotated[str | None, typer.Option(hidden=True)] = None


def _read(text: str) -> tuple[str, "JsonValue"]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise typer.BadParameter(f"found {text!r}, allowed: NAME=VALUE", param_hint="--argument")
    try:
        parsed = json.loads(value)
        json.dumps(parsed, allow_nan=False)
    except json.JSONDecodeError:
        return name, value
    except (RecursionError, ValueError):
        message = f"found {text[:60]!r}, allowed: finite numbers, in lists that are not too deep"
        raise typer.BadParameter(message, param_hint="--argument") from None
    return name, parsed
