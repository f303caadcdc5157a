"""Options of `sweep launch`, `sweep nightly` and `sweep audit`."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.spelling import POSITIONAL, AtLeast, program, words_of

if TYPE_CHECKING:
    from cudnn_sweep.orchestrator.planning.plan import Plan, Shard
    from cudnn_sweep.workloads.cells.suite import Replicates

ONCE = ("dry_run", "new", "detach", "strict", "retry_failed", "json", "wait")
WaitOption = Annotated[
    bool, "If another sweep measures on this machine's device, wait until it has ended."
]


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """Options of a launch. For an option that is None, the launch file decides."""

    file: Annotated[
        Path | None,
        POSITIONAL,
        "Launch file (a Ray cluster-launcher file with `metadata.sweep`) or suite. Default: "
        "./cluster.yaml; without that file, this machine.",
    ] = None
    suite: Annotated[str | None, "Bundled suite or .yaml file; overrides the launch file."] = None
    results: Annotated[
        str | None, "Folder or URL. Default: `results` in the launch file, or ./results."
    ] = None
    only: Annotated[
        Sequence[str], "FIELD=VALUE", "Run only trials with this value; repeat to narrow further."
    ] = ()
    replicates: Annotated[
        str | None,
        "N|decided|best",
        "Blocks per cell: a number, or until each cell is decided or its best config is found. decided:50 allows "
        "50 blocks instead of 20.",
    ] = None
    minutes: Annotated[
        float | None, AtLeast(0.1), "Time limit; overrides `minutes` of the launch file."
    ] = None
    dry_run: Annotated[bool, "Print the plan and run nothing."] = False
    resume: Annotated[str | None, "SWEEP_ID", "Resume this sweep and no other."] = None
    new: Annotated[bool, "Start a new sweep even if one is unfinished."] = False
    sweep_id: Annotated[str | None, "ID", "Start the sweep with this name, or resume it."] = None
    shard: Annotated[str | None, "I/N", "With --sweep-id: run part I of N of the plan."] = None
    detach: Annotated[
        bool,
        typer.Option("--detach/--follow", help="On a cluster: send the sweep and return at once."),
    ] = False
    strict: Annotated[bool, "On a cluster: refuse to start if a node is unfit."] = False
    retry_failed: Annotated[bool, "Run failed trials again."] = False
    json: Annotated[bool, "On this machine: print the outcome as JSON at the end."] = False
    wait: WaitOption = False
    results_asked: str | None = None
    """Results location that `sweep query` and `sweep report` use by default in this folder."""
    program: str = field(default_factory=program)
    """This program's name in printed commands: `sweep`, or its path if PATH lacks it."""

    @cached_property
    def own_shard(self) -> "Shard | None":
        """The value of `--shard`. Raises SpecError if it is no shard."""
        from cudnn_sweep.orchestrator.planning.plan import read_shard

        return None if self.shard is None else read_shard(self.shard)

    def part(self, plan: "Plan") -> "Plan":
        """Return this launch's part of the plan. Raises SpecError for an empty shard."""
        return plan if self.own_shard is None else self.own_shard.part(plan)

    @property
    def blocks(self) -> "Replicates | None":
        return None if self.replicates is None else read_replicates(self.replicates)

    @property
    def choices(self) -> list[tuple[str, str]]:
        """Field and value of each `--only`."""
        parts = [text.partition("=") for text in self.only]
        if odd := [name for name, equals, _ in parts if not equals]:
            raise typer.BadParameter(f"--only takes FIELD=VALUE, found {odd[0]!r}")
        return [(name, value) for name, _, value in parts]

    def check(self) -> None:
        """Raise SpecError for an invalid value or combination of options."""
        from cudnn_sweep.analysis.store.store import check_id

        _ = self.own_shard, self.blocks, self.choices
        choices = {"--resume": self.resume, "--new": self.new, "--sweep-id": self.sweep_id}
        given = [option for option, value in choices.items() if value]
        if len(given) > 1:
            raise SpecError(f"{' and '.join(given)} cannot be combined")
        if self.shard is not None and not self.sweep_id:
            raise SpecError("--shard needs --sweep-id ID, the same for all shards of a plan")
        if self.sweep_id is not None:
            check_id(self.sweep_id)

    def command(self) -> str:
        """Return the command that resumes this launch, as text for a shell."""
        once = ONCE if self.resume is None else (*ONCE, "only")
        return shlex.join([self.program, "launch", *words_of(self, without=once)])

    def again(self, sweep_id: str, trial_id: str) -> str:
        """Return the command that runs one trial of a sweep."""
        one = replace(self, resume=sweep_id, sweep_id=None, shard=None, only=())
        return f"{one.command()} --only trial_id={trial_id}"


def read_date(text: str, option: str) -> date:
    """Parse the value of `option`. Raises SpecError if it is no date."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise SpecError(f"{option}: found {text!r}, allowed: a date such as 2026-11-21") from None


@dataclass(frozen=True, kw_only=True)
class NightOptions:
    """Options of a night. For an option that is None, the launch file decides."""

    file: Annotated[Path, POSITIONAL, "Launch file."] = Path("cluster.yaml")
    suite: Annotated[str | None, "Overrides `nightly.suite` of the launch file."] = None
    results: Annotated[
        str | None, "Folder or URL. Default: `results` in the launch file, or ./results."
    ] = None
    minutes: Annotated[
        float | None, AtLeast(0.001), "Overrides `nightly.minutes` of the launch file."
    ] = None
    night: Annotated[
        date | None,
        typer.Option(
            parser=lambda text: read_date(text, "--night"),
            metavar="DATE",
            help="The night to run or compare. Default: today.",
        ),
    ] = None
    pin: Annotated[
        str | None,
        "DATE",
        "From now on, compare with the month that starts on this night; run nothing.",
    ] = None
    unpin: Annotated[bool, "Undo --pin; run nothing."] = False
    accept: Annotated[
        str | None,
        "SERIES|CELL",
        "Accept the last night's alerts of a series, a cell_id or a metric; run nothing.",
    ] = None
    accept_from: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="DATE", help="With --accept: the first night of the change."
        ),
    ] = None
    reason: Annotated[str | None, "TEXT", "With --accept: why the change is accepted."] = None
    reports: Annotated[Path | None, "Folder for the reports. Default: a folder in the results."] = (
        None
    )
    format: Annotated[Literal["text", "json"], "Format of the output."] = "text"
    json: Annotated[bool, "Short for --format json."] = False
    measure: Annotated[
        bool, typer.Option(help="--no-measure only compares recorded nights and needs no GPU.")
    ] = True
    dry_run: Annotated[bool, "Print the plan and run nothing."] = False
    program: str = field(default_factory=program)


@dataclass(frozen=True, kw_only=True)
class AuditRequest:
    script: Annotated[
        str, POSITIONAL, "SCRIPT", "A Python script or, with -m, the name of a module."
    ]
    arguments: Annotated[
        Sequence[str], POSITIONAL, "ARGUMENTS", "Its arguments, options included."
    ] = ()
    is_module: Annotated[
        bool, typer.Option("--module", "-m", help="SCRIPT names a module, as in python -m.")
    ] = False
    seconds: Annotated[float | None, AtLeast(0.1), "End the script after this time."] = None
    steps: Annotated[
        int | None, AtLeast(1), "End the script after this many calls of one of its models."
    ] = None


def read_replicates(text: str) -> "Replicates":
    """Parse a value of `--replicates`, such as `8` or `decided:50`. Raises SpecError."""
    from pydantic import TypeAdapter, ValidationError

    from cudnn_sweep.workloads.cells.suite import LOOKS, Replicates

    kind, colon, most = text.partition(":")
    until = f'{{"until": "{kind}"' + (f', "at_most": {most}' if colon else "") + "}"
    try:
        blocks: Replicates = TypeAdapter(Replicates).validate_json(
            until if kind in ("decided", "best") else text, strict=True
        )
        return blocks
    except ValidationError:
        raise SpecError(
            f"--replicates: found {text!r}, allowed: a number from 1, decided, best, decided:MOST or best:MOST "
            f"with MOST from {LOOKS[1]} to {LOOKS[-1]}"
        ) from None
