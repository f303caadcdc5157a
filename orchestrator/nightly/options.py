"""What the command line wishes of a night."""

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class NightOptions:
    """Those that are None leave it to the launch file."""

    file: Path
    suite: str | None = None
    results: str | None = None
    budget_minutes: float | None = None
    night: date
    """The date that the night goes by."""
    reports: Path | None = None
    """Folder for the reports; beside local results where none is named."""
    format: Literal["text", "json"] = "text"
    fake: Path | None = None
    """Script of a fake machine, in place of this one."""
    measure: bool = True
    """Whether to measure; else what is recorded is compared, and nothing more."""
    dry_run: bool = False
    program: str = "sweep"
    """What was typed to start us."""
