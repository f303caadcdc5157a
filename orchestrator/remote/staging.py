"""What a job takes along: this very version of our package, and what the user named of her own code."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from cudnn_sweep.analysis.storing.location import Location
from cudnn_sweep.analysis.storing.store import open_store
from cudnn_sweep.cluster.reach.launcher import end_group
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.request import SweepRequest
from cudnn_sweep.orchestrator.remote.job import RECORDS, JobRequest, write_request
from cudnn_sweep.workloads.cells.suite import workload_names
from cudnn_sweep.workloads.hardware.environment import our_commit, our_version

PACKAGE = "cudnn_sweep"
FOLDERS = ("analysis", "cluster", "orchestrator", "workloads")
NOT_TAKEN = shutil.ignore_patterns("__pycache__", "*.pyc")
END_S = 10.0  # for a driver that is to end
MOST_BYTES = 50 * 2**20  # of the user's own code: more is data, and slow to send

# Each worker's. As on this machine: see cluster/local/local_ray.py; and Tune must not leave the job's folder.
VARIABLES = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def stage(request: JobRequest, folder: Path) -> dict[str, Any]:
    """Fill `folder`, and return the job's runtime environment. Raises SpecError for what is not there."""
    package, work = folder / PACKAGE, folder / "work"
    for name in FOLDERS:
        source = Path(import_module(f"{PACKAGE}.{name}").__path__[0])
        shutil.copytree(source, package / name, ignore=NOT_TAKEN)
    work.mkdir()
    write_request(request, work)
    take_own_code(request.sweep, work)
    if not request.sweep.options.dry_run:
        _take_records(request, work / RECORDS)
    commit = our_commit()
    return {
        "py_modules": [str(package)],
        "working_dir": str(work),
        "env_vars": {
            **VARIABLES,
            "SWEEP_VERSION": our_version(),
            **({"SWEEP_COMMIT": commit} if commit else {}),
        },
    }


def take_own_code(request: SweepRequest, work: Path) -> None:
    """The files and modules of the user's own that the suite names. Raises SpecError."""
    for reference in _own(request):
        _take(reference, work)
    _check_size(work)


def _own(request: SweepRequest) -> list[str]:
    named = workload_names(request.suite)
    for axes in request.suite.cells:
        named.append(axes.model.loss)
        if isinstance(axes.model.inputs, str):
            named.append(axes.model.inputs)
    places = [name.rpartition(":")[0] for name in named if ":" in name]
    return list(dict.fromkeys([*places, *request.preload]))


def _take(place: str, work: Path) -> None:
    """A file by its path, or a module that lies in this folder; installed ones the nodes have."""
    if place.endswith(".py"):
        _take_file(place, work)
        return
    top = place.partition(".")[0]
    if Path(f"{top}.py").is_file():
        shutil.copy(f"{top}.py", work)
    elif Path(top).is_dir():
        shutil.copytree(top, work / top, ignore=NOT_TAKEN, dirs_exist_ok=True)


def _take_file(place: str, work: Path) -> None:
    source = Path(place)
    if source.is_absolute() or ".." in source.parts:
        raise SpecError(f"{place}: on a cluster a file must lie in this folder or below it")
    if not source.is_file():
        raise SpecError(f"{place}: there is no such file")
    (work / source).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, work / source)


def _take_records(request: JobRequest, target: Path) -> None:
    """Copies of unfinished sweeps, and of what a night is compared with: the head that had them may be lost."""
    where, night = Location(request.sweep.results), request.night
    if where.is_url or not where.folder.is_dir():
        return
    store = open_store(where.text)
    taken = {state.sweep_id for state in store.sweeps() if not state.finished}
    if night is not None:
        taken.update(night.compared_with(store.sweep_ids()))
        for file in (where.folder / night.kept).glob("*.json"):
            (target / night.kept).mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target / night.kept)
    for sweep_id in taken:
        folder = f"sweep={sweep_id}"
        shutil.copytree(where.folder / folder, target / folder)


def _check_size(work: Path) -> None:
    size = sum(file.stat().st_size for file in work.rglob("*") if file.is_file())
    if size > MOST_BYTES:
        raise SpecError(
            f"the code that the suite names takes {size / 2**20:.0f} MiB, at most "
            f"{MOST_BYTES // 2**20} go to a cluster: keep data elsewhere"
        )


@contextmanager
def driver_here(module: str, work: Path) -> Iterator[subprocess.Popen[str]]:
    """As a process of this node, in a process group of its own, which ends with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", module],
        cwd=work,
        env={**os.environ, **VARIABLES},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
        process.wait()
    finally:
        end_group(process, END_S)
