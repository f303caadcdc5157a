"""What the command line wishes of a launch."""

import re
import shlex
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from pathlib import Path

from pydantic import ValidationError

from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.sweep_selection import SweepSelection
from cudnn_sweep.workloads.cells.suite import LOOKS, MOST_TRIALS, Replicates, UntilDecided

WRITTEN = re.compile(r"(?:decided(?::(\d+))?|(\d+))")


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchOptions:
    """Those that are None leave it to the launch file."""

    file: Path | None
    """None: without a launch file, on this machine."""
    suite: str | None = None
    results: str | None = None
    only: tuple[tuple[str, str], ...] = ()
    selection: SweepSelection = dataclass_field(default_factory=SweepSelection)
    replicates: Replicates | None = None
    dry_run: bool = False
    try_cells: bool = False
    """In a dry run: one short process of each cell."""
    ask: bool = False
    """In a dry run: ask a running cluster which GPUs it has."""
    detach: bool = False
    """On a cluster: do not follow."""
    strict: bool = False
    """On a cluster: refuse to start where a node is unfit, rather than leave it out."""
    json: bool = False
    """On this machine: print what came of it as JSON, too."""
    budget_minutes: float | None = None
    results_asked: str | None = None
    """Where `sweep query` and `sweep report` look in the folder that this was typed in."""
    program: str = "sweep"
    """What was typed to start us: `sweep`, or its path where the shell does not find it."""

    def command(self) -> str:
        """What to type to go on with this launch, as text for a shell."""
        selection = self.selection
        if selection.resume is not None:
            return self._words("--resume", selection.resume)
        words = [word for field, value in self.only for word in ("--only", f"{field}={value}")]
        if selection.sweep_id is not None:
            words += ["--sweep-id", selection.sweep_id]
        if selection.shard is not None:
            words += ["--shard", str(selection.shard)]
        return self._words(*words)

    def again(self, sweep_id: str, trial_id: str) -> str:
        """What to type to run one trial of a sweep."""
        return self._words("--resume", sweep_id, "--only", f"trial_id={trial_id}")

    def _words(self, *more: str) -> str:
        words = [self.program, "launch"] + ([] if self.file is None else [str(self.file)])
        replicates = None if self.replicates is None else replicates_text(self.replicates)
        given = {"--suite": self.suite, "--results": self.results, "--replicates": replicates}
        given["--minutes"] = None if self.budget_minutes is None else f"{self.budget_minutes:g}"
        for option, value in given.items():
            if value is not None:
                words += [option, value]
        return shlex.join([*words, *more])


def read_replicates(text: str) -> Replicates:
    """`8`, `decided` or `decided:50`. Raises SpecError."""
    found = WRITTEN.fullmatch(text)
    most, number = found.groups() if found else (None, None)
    try:
        if found and number is None:
            most_blocks = {} if most is None else {"at_most": int(most)}
            return UntilDecided(until="decided", **most_blocks)
        if number is not None and 1 <= int(number) <= MOST_TRIALS:
            return int(number)
    except ValidationError:
        pass
    raise SpecError(
        f"--replicates: found {text!r}, allowed: a number from 1, decided, or decided:MOST with MOST from "
        f"{LOOKS[0]} to {LOOKS[-1]}"
    )


def replicates_text(replicates: Replicates) -> str:
    """As `read_replicates` reads it."""
    if isinstance(replicates, UntilDecided):
        return f"decided:{replicates.at_most}"
    return str(replicates)
