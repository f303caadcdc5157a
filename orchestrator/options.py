"""What the command line wishes of a launch."""

import shlex
from dataclasses import dataclass, field
from pathlib import Path

from cudnn_sweep.orchestrator.sweep_choice import Wish


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchOptions:
    """Those that are None leave it to the launch file."""

    file: Path
    suite: str | None = None
    results: str | None = None
    only: tuple[tuple[str, str], ...] = ()
    wish: Wish = field(default_factory=Wish)
    dry_run: bool = False
    program: str = "sweep"
    """What was typed to start us: `sweep`, or its path where the shell does not find it."""

    def command(self) -> str:
        """What to type for a launch of the same plan, as text for a shell."""
        words = [self.program, "launch", str(self.file)]
        for option, value in (("--suite", self.suite), ("--results", self.results)):
            if value is not None:
                words += [option, value]
        for field_name, value in self.only:
            words += ["--only", f"{field_name}={value}"]
        return shlex.join(words)
