"""A suite: what to measure, under which configs, and how often."""

import re
from collections.abc import Sequence
from dataclasses import fields
from math import prod
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Discriminator,
    Field,
    JsonValue,
    PlainSerializer,
    PositiveInt,
    Tag,
    WithJsonSchema,
    model_validator,
)

from cudnn_sweep.workloads.cells.cell import ONE_RANK
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.listed_shapes import ListedChoice
from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.models.inputs import Inputs
from cudnn_sweep.workloads.parameters import NamedChoice
from cudnn_sweep.workloads.problem import ConvProblem, Shape, none_empty, parse_sizes, sizes_text
from cudnn_sweep.workloads.strict import STRICT
from cudnn_sweep.workloads.training.choice import Expect
from cudnn_sweep.workloads.training.loss import MEAN_SQUARE

ALL_MODELS = "all"
ALL_REGIMES = "all"

GpuName = Annotated[str, Field(min_length=1)]
Batch = Annotated[int, Field(ge=1, lt=2**31)]


def _read_sizes(text: object) -> Shape:
    if isinstance(text, str | int) and not isinstance(text, bool):
        return parse_sizes(str(text))
    raise ValueError(f"expected sizes such as 8x3x224x224, found {text!r}")


def _kind_of_regime(choice: object) -> str:
    if isinstance(choice, str):
        return "name"
    is_listed = isinstance(choice, ListedChoice) or (
        isinstance(choice, dict) and "listed" in choice
    )
    return "listed" if is_listed else "rule"


Sizes = Annotated[
    Shape,
    BeforeValidator(_read_sizes),
    PlainSerializer(sizes_text),
    WithJsonSchema(
        {"type": ["string", "integer"], "pattern": r"^\d+(x\d+)*$", "examples": ["8x3x224x224"]},
        mode="validation",
    ),
]
Extents = Annotated[Sizes, AfterValidator(none_empty)]


def _with_batch(sizes: Shape) -> Shape:
    if len(sizes) < 2:
        raise ValueError(
            f"expected a batch size and other sizes, such as 8x3x224x224, found {sizes_text(sizes)}"
        )
    return sizes


def _read_ranks(given: Any) -> Any:
    match = re.fullmatch(r"([1-9]\d?)(_ranks?)?", str(given))
    if match is None or isinstance(given, bool):
        raise ValueError(f"found {given!r}, allowed: a number of GPUs from 1 to 99")
    return ONE_RANK if match[1] == "1" else f"{match[1]}_ranks"


RankCount = Annotated[
    str,
    BeforeValidator(_read_ranks),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": 99}, mode="validation"),
]


def _of_one_rank(inputs: list[Shape]) -> list[Shape]:
    if len({len(sizes) for sizes in inputs}) > 1:
        texts = ", ".join(map(sizes_text, inputs))
        raise ValueError(
            f"found {texts}, allowed: entries with the same number of sizes, because each makes a "
            "cell; write the tensors of one call under `model: {inputs: ...}`"
        )
    return inputs


RegimeChoice = Annotated[
    Annotated[str, Tag("name")]
    | Annotated[ListedChoice, Tag("listed")]
    | Annotated[dict[str, dict[str, float]], Tag("rule")],
    Discriminator(_kind_of_regime),
]
ModelInput = Annotated[Extents, AfterValidator(_with_batch)]


class BatchByDevice(BaseModel):
    """A batch size for GPUs and another batch size for CPUs."""

    model_config = STRICT

    cuda: Batch
    """Batch size on a GPU."""
    cpu: Batch
    """Batch size on a CPU."""


class PrecisionByDevice(BaseModel):
    """A precision for GPUs and another precision for CPUs."""

    model_config = STRICT

    cuda: str
    """Precision on a GPU."""
    cpu: str
    """Precision on a CPU."""


class ProblemSpec(BaseModel):
    """A convolution. Its keys are arguments of torch.nn.Conv1d, Conv2d or Conv3d. A single size
    applies to all dimensions."""

    model_config = STRICT

    input: Extents
    """Sizes of the input: batch, channels and one to three spatial sizes."""
    out_channels: PositiveInt
    """Number of output channels."""
    kernel: Extents
    """Size of the filters, such as 3x3."""
    stride: Extents = (1,)
    """Stride of the filters."""
    padding: Sizes = (0,)
    """Number of zeros that are added on each side of each dimension."""
    dilation: Extents = (1,)
    """Distance between a filter's elements."""
    groups: PositiveInt = 1
    """Number of groups of channels. Channels of different groups are not combined."""
    bias: bool = False
    """Whether a bias is added."""
    transposed: bool = False
    """Whether the convolution is transposed."""
    output_padding: Sizes = (0,)
    """Size that is added to one side of the output of a transposed convolution."""
    occurrences: PositiveInt = 1
    """Number of times that the network contains the convolution."""

    @model_validator(mode="before")
    @classmethod
    def _padding_is_a_number(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("padding") == "same" and "kernel" in given:
            kernel, dilation = (_read_sizes(given.get(key, 1)) for key in ("kernel", "dilation"))
            added = [reach * (size - 1) for size, reach in zip(kernel, dilation * 3, strict=False)]
            means = f"`same` means {sizes_text(tuple(n // 2 for n in added))} here"
            odd = "here `same` adds one zero more at the end than at the start, which no size does"
            hint = odd if any(n % 2 for n in added) else means
            raise ValueError(f"padding: found `same`, allowed: sizes; {hint}")
        return given

    def problem(self, name: str) -> ConvProblem:
        given = dict(self)
        shape, kernel = given.pop("input"), given.pop("kernel")
        return ConvProblem(name=name, input_shape=shape, kernel_size=kernel, **given)


class ModelSpec(BaseModel):
    """How a model is made and trained."""

    model_config = STRICT

    arguments: dict[str, JsonValue] = {}
    """Keyword arguments of the model's class or function."""
    inputs: Inputs | None = None
    """Arguments of the model: a mapping of keyword arguments, a list of positional arguments, or a
    function `FILE.py:NAME` that makes them. An argument is written as
    `{shape: [batch, length], dtype: int64, below: 30522}`. The default is one float tensor."""
    loss: str = MEAN_SQUARE
    """Loss for training: `mean_square`, `cross_entropy`, `own` for the loss that the model returns,
    or `FILE.py:NAME` for a function of the model's output."""
    optimiser: NamedChoice = "sgd"
    """Optimiser for training, with its parameters."""
    expect: Expect | None = None
    """Expected counts, such as `{parameters: 223685, convolutions: 7}`. A launch refuses a model
    with other counts."""


MOST_TRIALS = 1_000_000  # a plan with so many trials would run for weeks
NO_AXES = ("model", "configs")  # keys of CellAxes that are the same for all its cells


class CellAxes(BaseModel):
    """A group of cells. There is one cell for each combination of the listed values."""

    model_config = STRICT

    workload: str | list[str]
    """Workload to time: the name of a bundled workload, or your own model or `@workload` function,
    written as `my_nets.py:Net` or `package.module:name`."""
    problem: str | list[str] | None = None
    """Convolution for the workload `conv`: a bundled convolution such as `tutorials/rgb256`, all
    convolutions of a bundled file such as `tutorials`, or a name under `problems`."""
    input: ModelInput | Annotated[list[ModelInput], AfterValidator(_of_one_rank)] | None = None
    """Sizes of a model's input, such as 32x3x224x224: batch, channels and spatial sizes."""
    model: ModelSpec = ModelSpec()
    """How a model is made and trained."""
    direction: str | list[str] | None = None
    """Part of the workload that is timed, such as `forward` or `training`. The default is the
    first direction of the workload."""
    batch: Batch | BatchByDevice | list[Batch] | None = None
    """Batch size. It replaces the batch size of the problem, input or workload."""
    regime: RegimeChoice | list[RegimeChoice] = "fixed"
    """Sequence of input shapes: the name of a regime, a regime with parameters such as
    `{cycle: {sizes: 4}}`, a file of shapes as `{listed: {file: shapes.csv}}`, or your own class as
    `FILE.py:NAME`. `all` adds all bundled regimes that suit the cell."""
    state: NamedChoice | list[NamedChoice] = "plain"
    """Condition under which steps run, such as `little_memory`. `plain` means no condition."""
    precision: str | PrecisionByDevice | list[str] = "tf32"
    """How numbers are stored and multiplied. `tf32` is PyTorch's default for float32."""
    layout: str | list[str] = "contiguous"
    """Order of a tensor's elements in memory."""
    ranks: RankCount | list[RankCount] = Field(default=ONE_RANK, json_schema_extra={"default": 1})
    """Number of GPUs of one host that train a model together with DistributedDataParallel. Each
    GPU gets a whole batch."""
    configs: list[Config] | None = Field(default=None, min_length=1)
    """Configs to compare in these cells, instead of the configs of the suite."""

    def values_on(self, device: str) -> dict[str, list[Any]]:
        chosen = {
            name: getattr(value, device)
            if isinstance(value, BatchByDevice | PrecisionByDevice)
            else value
            for name, value in self
            if name not in NO_AXES
        }
        return {name: as_list(value) for name, value in chosen.items()}


class GpuChoice(BaseModel):
    """GPUs on which a sweep runs."""

    model_config = STRICT

    models: GpuName | Annotated[list[GpuName], Field(min_length=1)] = ALL_MODELS
    """Names of GPU models, or parts of names, such as `NVIDIA A100-SXM4-40GB` or `H200`."""
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the GPUs of each model to use. At least one GPU of each model is used."""


LOOKS = (2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200)


class UntilDecided(BaseModel):
    """A number of blocks that grows until a cell is decided."""

    model_config = STRICT

    until: Literal["decided", "best"]
    """`decided` adds blocks until each contrast has a verdict. `best` is a race. It adds blocks
    until no other config can be 1% faster than the fastest one."""
    at_most: Annotated[int, Field(ge=LOOKS[1], le=LOOKS[-1])] = 20
    """Largest number of blocks of a cell."""

    @property
    def looks(self) -> tuple[int, ...]:
        return (*(look for look in LOOKS if look < self.at_most), self.at_most)


Replicates = PositiveInt | UntilDecided

BY_DEFAULT = UntilDecided(until="decided")
FIXED_BLOCKS = 5  # default of a night, and of a suite without configs to compare
BLOCKS_WITHOUT_GPU = 2  # few, because settings have no effect without a GPU


def most_replicates(replicates: Replicates | None) -> int:
    most = replicates or BY_DEFAULT
    return most.at_most if isinstance(most, UntilDecided) else most


class WithoutGpu(BaseModel):
    """Keys that replace the suite's keys on a machine without a GPU."""

    model_config = STRICT

    configs: list[Config] | None = Field(default=None, min_length=1)
    """Replaces the suite's configs."""
    replicates: Replicates | None = None
    """Replaces the suite's number of blocks."""
    measure: MeasureSpec | None = None
    """Replaces the whole `measure` of the suite."""


def _names_a_setting(contrast: str) -> str:
    settings = [field.name for field in fields(Config)]
    if contrast.partition("=")[0] not in settings:
        allowed = f"SETTING or SETTING=VALUE with one of the settings {', '.join(settings)}"
        raise ValueError(f"found {contrast!r}, allowed: {allowed}")
    return contrast


class SuiteSpec(BaseModel):
    """What is timed, under which configs, and how."""

    model_config = STRICT

    cells: list[CellAxes] = Field(min_length=1)
    """Cells to time."""
    problems: dict[str, ProblemSpec] = {}
    """Convolutions that `cells` can name under `problem`."""
    configs: list[Config] = Field(
        default=[Config(benchmark=False), Config(benchmark=True)], min_length=1
    )
    """Configs to compare. The default is `benchmark` off and on."""
    replicates: Replicates | None = None
    """Number of blocks per cell: a number, `{until: decided, at_most: 20}` or `{until: best}`. A
    block runs each config once. The default is `{until: decided}`, but 5 in nights or if no two
    configs differ in one setting, and 2 on machines without a GPU."""
    decided_by: list[Annotated[str, AfterValidator(_names_a_setting)]] = []
    """Contrasts that need a verdict if `replicates` is `until: decided`, such as `benchmark` or
    `layout=weights`. The default is all pairs of configs that differ in one setting."""
    new_compute_caches: PositiveInt = 1
    """Number of a cell's replicates that start with an empty cache of compiled kernels."""
    twin_every: Annotated[int, Field(ge=1, le=20)] = 20
    """One block in this many runs one config twice. Such A/A pairs check the verdicts."""
    measure: MeasureSpec = MeasureSpec()
    """Time limits and other settings of the measurement."""
    needs_cuda: bool = False
    """Whether the suite needs a GPU."""
    gpus: GpuChoice = GpuChoice()
    """GPUs on which the sweep runs."""
    preload: list[str] = []
    """Packages that are slow to import. The fork server imports them once for all trials."""
    without_gpu: WithoutGpu = WithoutGpu()
    """Keys that replace the suite's keys on a machine without a GPU."""

    @model_validator(mode="after")
    def _is_no_flood(self) -> "SuiteSpec":
        if fault := too_many(self.cells, self.configs, self.replicates):
            raise ValueError(fault)
        if self.is_race and self.decided_by:
            raise ValueError("decided_by: contrasts are not allowed with `until: best`")
        return self

    @property
    def every_config(self) -> list[Config]:
        """Distinct configs of the suite and its cells, and copies without layout and precision."""
        of_cells = [config for axes in self.cells for config in axes.configs or ()]
        configs = [*self.configs, *of_cells]
        plain = [config.beside(config.layout, config.precision) for config in configs]
        return list(dict.fromkeys([*configs, *plain]))

    @property
    def looks(self) -> tuple[int, ...]:
        """Numbers of blocks after which a cell may be decided. Empty if the number is fixed."""
        return self.replicates.looks if isinstance(self.replicates, UntilDecided) else ()

    @property
    def is_race(self) -> bool:
        return isinstance(self.replicates, UntilDecided) and self.replicates.until == "best"

    def on(self, device: str) -> "SuiteSpec":
        if device == "cuda":
            return self
        changes = {key: value for key, value in self.without_gpu if value is not None}
        if self.replicates is None:
            changes.setdefault("replicates", BLOCKS_WITHOUT_GPU)
        return self.model_copy(update=changes)

    def with_blocks(self, default: Replicates) -> "SuiteSpec":
        return self if self.replicates else self.model_copy(update={"replicates": default})


def too_many(
    cells: Sequence[CellAxes], configs: Sequence[Config], replicates: Replicates | None
) -> str | None:
    """Return an error message if a plan has too many trials, else None."""
    combinations = (prod(map(len, axes.values_on("cpu").values())) for axes in cells)
    pairs = sum(
        count * len(axes.configs or configs)
        for count, axes in zip(combinations, cells, strict=True)
    )
    return too_many_trials(pairs * most_replicates(replicates))


def too_many_trials(trials: int) -> str | None:
    if trials <= MOST_TRIALS:
        return None
    return f"found {trials:,} trials (cells x configs x replicates), allowed: {MOST_TRIALS:,}"


def workload_names(suite: SuiteSpec) -> list[str]:
    names: list[str] = []
    for axes in suite.cells:
        names += as_list(axes.workload)
        for choice in as_list(axes.regime):
            if not isinstance(choice, ListedChoice):
                regimes = [choice] if isinstance(choice, str) else choice
                names += [name for name in regimes if ":" in name]
    return list(dict.fromkeys(names))


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
