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
WaitOption = Annotated[bool, "Wait while another sweep uses the device of this machine."]


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """Options of a launch. The launch file supplies the values of options that are None."""

    file: Annotated[
        Path | None,
        POSITIONAL,
        "Launch file or suite. Default: ./cluster.yaml, or this machine if there is no such file.",
    ] = None
    suite: Annotated[str | None, "Bundled suite or .yaml file. Overrides the launch file."] = None
    results: Annotated[
        str | None, "Folder or URL of results. Default: `results` in the launch file, or ./results."
    ] = None
    only: Annotated[
        Sequence[str],
        "FIELD=VALUE",
        "Run only the trials in which FIELD is VALUE. Can be repeated.",
    ] = ()
    replicates: Annotated[
        str | None,
        "N|decided|best",
        "Number of blocks per cell, decided (until a cell is decided), or best (until its best "
        "config is found). decided:50 allows 50 blocks instead of 20.",
    ] = None
    minutes: Annotated[
        float | None, AtLeast(0.1), "Time limit in minutes. Overrides `minutes` in the launch file."
    ] = None
    dry_run: Annotated[bool, "Print the plan without running it."] = False
    resume: Annotated[str | None, "SWEEP_ID", "Resume the sweep with this id."] = None
    new: Annotated[bool, "Start a new sweep instead of resuming an unfinished one."] = False
    sweep_id: Annotated[str | None, "ID", "Start a sweep with this id, or resume it."] = None
    shard: Annotated[str | None, "I/N", "Run only part I of N of the plan. Needs --sweep-id."] = (
        None
    )
    detach: Annotated[
        bool,
        typer.Option(
            "--detach/--follow", help="On a cluster, submit the sweep and return at once."
        ),
    ] = False
    strict: Annotated[bool, "On a cluster, fail if a node cannot take part."] = False
    retry_failed: Annotated[bool, "Run failed trials again."] = False
    json: Annotated[bool, "Print the outcome as JSON. Only for sweeps on this machine."] = False
    wait: WaitOption = False
    results_asked: str | None = None
    """Location of the results that `sweep query` reads by default in this folder."""
    program: str = field(default_factory=program)

    @cached_property
    def own_shard(self) -> "Shard | None":
        """The value of `--shard`. Raises SpecError if it is invalid."""
        from cudnn_sweep.orchestrator.planning.plan import read_shard

        return None if self.shard is None else read_shard(self.shard)

    def part(self, plan: "Plan") -> "Plan":
        """Return the part of the plan that this launch runs. Raises SpecError if it is empty."""
        return plan if self.own_shard is None else self.own_shard.part(plan)

    @property
    def blocks(self) -> "Replicates | None":
        return None if self.replicates is None else read_replicates(self.replicates)

    @property
    def choices(self) -> list[tuple[str, str]]:
        """The field and the value of each `--only`."""
        parts = [text.partition("=") for text in self.only]
        if odd := [name for name, equals, _ in parts if not equals]:
            raise typer.BadParameter(f"--only: found {odd[0]!r}, allowed: FIELD=VALUE")
        return [(name, value) for name, _, value in parts]

    def check(self) -> None:
        """Raise SpecError if an option is invalid, or if options cannot be combined."""
        from cudnn_sweep.analysis.store.store import check_id

        _ = self.own_shard, self.blocks, self.choices
        choices = {"--resume": self.resume, "--new": self.new, "--sweep-id": self.sweep_id}
        given = [option for option, value in choices.items() if value]
        if len(given) > 1:
            raise SpecError(f"{' and '.join(given)} cannot be combined")
        if self.shard is not None and not self.sweep_id:
            raise SpecError("--shard needs --sweep-id ID. Use the same ID for all shards")
        if self.sweep_id is not None:
            check_id(self.sweep_id)

    def command(self) -> str:
        """Return a shell command that resumes this launch."""
        once = ONCE if self.resume is None else (*ONCE, "only")
        return shlex.join([self.program, "launch", *words_of(self, without=once)])

    def again(self, sweep_id: str, trial_id: str) -> str:
        """Return a shell command that runs one trial of a sweep."""
        one = replace(self, resume=sweep_id, sweep_id=None, shard=None, only=())
        return f"{one.command()} --only trial_id={trial_id}"


def read_date(text: str, option: str) -> date:
    """Parse the date that was given for `option`. Raises SpecError if it is invalid."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise SpecError(f"{option}: found {text!r}, allowed: a date such as 2026-11-21") from None


@dataclass(frozen=True, kw_only=True)
class NightOptions:
    """Options of a night. The launch file supplies the values of options that are None."""

    file: Annotated[Path, POSITIONAL, "Launch file."] = Path("cluster.yaml")
    suite: Annotated[str | None, "Suite to run. Overrides `nightly.suite` in the launch file."] = (
        None
    )
    results: Annotated[
        str | None, "Folder or URL of results. Default: `results` in the launch file, or ./results."
    ] = None
    minutes: Annotated[
        float | None,
        AtLeast(0.001),
        "Time limit in minutes. Overrides `nightly.minutes` in the launch file.",
    ] = None
    night: Annotated[
        date | None,
        typer.Option(
            parser=lambda text: read_date(text, "--night"),
            metavar="DATE",
            help="Night to run or to compare. Default: today.",
        ),
    ] = None
    pin: Annotated[
        str | None,
        "DATE",
        "Compare later nights with the month that starts on this date. Runs nothing.",
    ] = None
    unpin: Annotated[bool, "Undo --pin. Runs nothing."] = False
    accept: Annotated[
        str | None,
        "SERIES|CELL",
        "Accept the last night's alerts for a series, a cell_id or a metric. Runs nothing.",
    ] = None
    accept_from: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="DATE", help="First night of the accepted change. Needs --accept."
        ),
    ] = None
    reason: Annotated[str | None, "TEXT", "Why the change is accepted. Needs --accept."] = None
    reports: Annotated[Path | None, "Folder for the reports. Default: a folder in the results."] = (
        None
    )
    format: Annotated[Literal["text", "json"], "Format of the output."] = "text"
    json: Annotated[bool, "Short for --format json."] = False
    measure: Annotated[
        bool, typer.Option(help="With --no-measure, only compare recorded nights.")
    ] = True
    dry_run: Annotated[bool, "Print the plan without running it."] = False
    program: str = field(default_factory=program)


@dataclass(frozen=True, kw_only=True)
class AuditRequest:
    script: Annotated[str, POSITIONAL, "SCRIPT", "Python script. With -m, the name of a module."]
    arguments: Annotated[
        Sequence[str], POSITIONAL, "ARGUMENTS", "Arguments and options of the script."
    ] = ()
    is_module: Annotated[
        bool, typer.Option("--module", "-m", help="Run SCRIPT as a module, like `python -m`.")
    ] = False
    seconds: Annotated[float | None, AtLeast(0.1), "End the script after this many seconds."] = None
    steps: Annotated[
        int | None, AtLeast(1), "End the script after a model was called this many times."
    ] = None


def read_replicates(text: str) -> "Replicates":
    """Parse `--replicates`, such as `8` or `decided:50`. Raises SpecError if it is invalid."""
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
            f"--replicates: found {text!r}, allowed: a number from 1, decided, best, decided:MOST "
            f"or best:MOST. MOST is a number from {LOOKS[1]} to {LOOKS[-1]}"
        ) from None
