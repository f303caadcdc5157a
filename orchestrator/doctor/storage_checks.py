"""Checks of where a sweep writes: its results, and its temporary files."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cudnn_sweep.analysis.errors import StoreError
from cudnn_sweep.analysis.storing.store import open_store
from cudnn_sweep.analysis.words import number
from cudnn_sweep.orchestrator.doctor.check import Check
from cudnn_sweep.orchestrator.errors import OrchestratorError
from cudnn_sweep.orchestrator.locks.private_folder import (
    ADVICE,
    our_temporary_folder,
    temporary_path,
)

LEAST_FREE_GB = 2.0  # Ray refuses work on a disk that is 95% full; a night's records take 100 MB


def check_storage(results: str) -> Iterator[Check]:
    yield _results(results)
    yield _room("temporary files", Path(tempfile.gettempdir()))
    yield _compute_caches(temporary_path())


def _results(location: str) -> Check:
    name = "results"
    try:
        store = open_store(location)
        with _made_folders_removed(Path(store.location) if store.folder.is_local else None):
            store.check_writable()
    except StoreError as error:
        advice = "choose another location with --results, or with `results` in the launch file"
        return Check(name=name, state="problem", found=str(error), advice=advice)
    if not store.folder.is_local:
        return Check(name=name, found=f"{store.folder.shown()} can be written")
    return _room(name, Path(store.location))


def _compute_caches(folder: Path) -> Check:
    """Compiled kernels are kept below a folder of this user's."""
    name = "compute caches"
    try:
        with _made_folders_removed(folder):
            our_temporary_folder()
            with tempfile.NamedTemporaryFile(dir=folder):
                pass
    except OrchestratorError as error:
        found, _, advice = str(error).rpartition(": ")
        return Check(name=name, state="problem", found=found, advice=advice)
    except OSError as error:
        found = f"{folder} cannot be written: {error.strerror}"
        return Check(name=name, state="problem", found=found, advice=ADVICE)
    return Check(name=name, found=f"{folder} can be written")


def _room(name: str, folder: Path) -> Check:
    free_gb = shutil.disk_usage(_existing(folder)).free / 1e9
    found = f"{folder} can be written, {number(free_gb)} GB free"
    if free_gb >= LEAST_FREE_GB:
        return Check(name=name, found=found)
    found = f"{folder}: {number(free_gb)} GB free"
    advice = f"free {LEAST_FREE_GB:g} GB there: a sweep stops where its records find no room"
    return Check(name=name, state="warning", found=found, advice=advice)


@contextmanager
def _made_folders_removed(folder: Path | None) -> Iterator[None]:
    """A look leaves nothing behind."""
    made = (
        [] if folder is None else [each for each in (folder, *folder.parents) if not each.exists()]
    )
    try:
        yield
    finally:
        for each in made:
            if each.is_dir() and not any(each.iterdir()):
                each.rmdir()


def _existing(folder: Path) -> Path:
    return next(each for each in (folder, *folder.parents) if each.exists())
