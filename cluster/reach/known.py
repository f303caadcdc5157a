"""What this machine remembers of a cluster between commands: its token, and the sweeps sent there."""

import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.user_folders import state_home


@dataclass(frozen=True, kw_only=True, slots=True)
class SentJob:
    """A sweep that runs, or ran, as a job there."""

    job_id: str
    results: str
    """Where copies of its records go here, or the URL where they are."""
    command: str
    """What was typed."""
    sweep_id: str = ""
    """Where it was chosen here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownCluster:
    """A folder of this user's alone."""

    name: str

    @property
    def folder(self) -> Path:
        ours = state_home(os.environ) / "cudnn-sweep"
        return ours / "clusters" / re.sub(r"[^\w.-]", "_", self.name)

    @property
    def token(self) -> Path:
        return self.folder / "ray_token"

    @property
    def launch_file(self) -> Path:
        """The copy that `ray up` was given."""
        return self.folder / "cluster.yaml"

    @property
    def _jobs_file(self) -> Path:
        return self.folder / "jobs.json"

    def remember(self, job: SentJob) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        jobs = [asdict(each) for each in [*self.jobs(), job]]
        self._jobs_file.write_text(json.dumps(jobs))

    def forget_jobs(self) -> None:
        self._jobs_file.unlink(missing_ok=True)

    def jobs(self) -> list[SentJob]:
        """In the order in which they were sent; the cluster may have been lost since."""
        if not self._jobs_file.exists():
            return []
        found: list[dict[str, str]] = json.loads(self._jobs_file.read_text())
        return [SentJob(**each) for each in found]

    def job(self) -> SentJob:
        """The last one sent. Raises ClusterError where there is none."""
        if not (jobs := self.jobs()):
            raise ClusterError(f"no sweep was sent to cluster {self.name} from here")
        return jobs[-1]
