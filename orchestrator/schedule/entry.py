"""What is scheduled: one launch file, every night at a time, with the program that runs it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import time
from hashlib import blake2b
from pathlib import Path

from cudnn_sweep.cluster.user_folders import config_home, state_home
from cudnn_sweep.orchestrator.errors import ScheduleError

HOURS_AND_MINUTES = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    launch_file: Path
    """Absolute."""
    program: tuple[str, ...]
    """The words that start `sweep`, the first an absolute path."""
    at: time
    log: Path

    def __post_init__(self) -> None:
        for text in (str(self.launch_file), *self.program, str(self.log)):
            if not text.isprintable():
                raise ScheduleError(
                    f"{text!r}: a schedule takes no path with line breaks or other signs "
                    "that cannot be printed"
                )

    @property
    def words(self) -> tuple[str, ...]:
        return (*self.program, "nightly", str(self.launch_file))


@dataclass(frozen=True, kw_only=True, slots=True)
class UserFolders:
    config: Path
    state: Path

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "UserFolders":
        return cls(config=config_home(environment), state=state_home(environment))

    def log_of(self, launch_file: Path) -> Path:
        return self.state / "cudnn-sweep" / f"nightly-{key_of(launch_file)}.log"


def parse_time(text: str) -> time:
    """Raises ScheduleError for all but HH:MM."""
    found = HOURS_AND_MINUTES.fullmatch(text)
    if found is None:
        raise ScheduleError(f"--at takes HH:MM, from 00:00 to 23:59; found {text!r}")
    return time(int(found[1]), int(found[2]))


def absolute(launch_file: Path) -> Path:
    """The same for every way to name a file. A link to a file stays: it may lead elsewhere tomorrow."""
    return launch_file.parent.resolve() / launch_file.name


def key_of(launch_file: Path) -> str:
    """What entries are told apart by."""
    return blake2b(str(launch_file).encode(errors="surrogateescape"), digest_size=6).hexdigest()
