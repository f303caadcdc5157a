"""What this machine remembers of a cluster between commands: its token, and the last sweep sent there."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from cudnn_sweep.cluster.errors import ClusterError


@dataclass(frozen=True, kw_only=True, slots=True)
class SentJob:
    """A sweep that runs, or ran, as a job there."""

    job_id: str
    results: str
    """Where copies of its records go here, or the URL where they are."""
    command: str
    """What was typed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownCluster:
    """A folder of this user's alone."""

    name: str

    @property
    def folder(self) -> Path:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        return Path(state, "cudnn-sweep", "clusters", re.sub(r"[^\w.-]", "_", self.name))

    @property
    def token(self) -> Path:
        return self.folder / "ray_token"

    @property
    def launch_file(self) -> Path:
        """The copy that `ray up` was given."""
        return self.folder / "cluster.yaml"

    def remember(self, job: SentJob) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.folder / "job.json").write_text(json.dumps(asdict(job)))

    def job(self) -> SentJob:
        """The last one sent. Raises ClusterError where there is none."""
        try:
            found: Mapping[str, str] = json.loads((self.folder / "job.json").read_text())
        except FileNotFoundError:
            raise ClusterError(f"no sweep was sent to cluster {self.name} from here") from None
        return SentJob(**found)
