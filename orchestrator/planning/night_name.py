"""What a night is called: its sweep, that of its confirmation, and the nights that it belongs to."""

import re
from dataclasses import dataclass
from datetime import date

from cudnn_sweep.cluster.launch_file import LaunchFile
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.spec import SweepSpec

UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class NightName:
    date: date
    launch: str
    """Tells the nights of launch files apart that share results."""

    @property
    def sweep_id(self) -> str:
        return f"night-{self.date}-{self.launch}"

    @property
    def confirm_id(self) -> str:
        """The sweep_id of the night's fresh trials, which are no night of their own."""
        return f"confirm-{self.date}-{self.launch}"


def launch_name(file: LaunchFile[SweepSpec]) -> str:
    """`metadata.sweep.nightly.name`, else the cluster's name, else the file's."""
    name = file.sweep.nightly.name or file.ray_part.get("cluster_name") or file.path.stem
    return UNSAFE.sub("-", str(name))


def read_date(text: str, option: str) -> date:
    """The date that an option names a night by. Raises SpecError where it is none."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise SpecError(f"{option} {text}: found no date, allowed: as 2026-11-21") from None


def is_night_of(sweep_id: str, launch: str) -> bool:
    return is_of(sweep_id, launch) and sweep_id.startswith("night-")


def is_of(sweep_id: str, launch: str) -> bool:
    """Whether a sweep is a night of this launch, or the fresh trials of one."""
    pattern = rf"(night|confirm)-\d{{4}}-\d\d-\d\d-{re.escape(launch)}"
    return re.fullmatch(pattern, sweep_id) is not None
