"""Reads the file that `sweep launch` takes: a Ray cluster-launcher file.

The sweep's own part stands under `metadata: {sweep: ...}` and is read strictly, as YAML 1.2. The
rest is Ray's: it is read as Ray reads it (PyYAML, YAML 1.1, where `off` is false) and goes through
Ray's own validator. A file without `provider` is ours alone: it means this machine, or a running
cluster.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import yaml  # type: ignore[import-untyped]

from cudnn_sweep.cluster.errors import LaunchFileError
from cudnn_sweep.cluster.extra import require_cluster_extra
from cudnn_sweep.cluster.strict.mistakes import unknown_key
from cudnn_sweep.cluster.strict.strict_yaml import Document, check_part, read_document
from cudnn_sweep.cluster.strict.yaml_tree import Mistake

SWEEP = ("metadata", "sweep")
OUR_OWN: dict[str, type] = {"cluster_name": str, "metadata": dict}  # without `provider`

EXAMPLE = """A launch file for this machine:

    metadata:
      sweep:
        suite: quick
        results: results
"""
INSIDE = "auto"  # an address, as Ray calls it

M = TypeVar("M")


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchFile(Generic[M]):
    path: Path
    sweep: M
    ray_part: Mapping[str, object]
    """The whole file as Ray sees it, `metadata` included."""


def read_launch_file(path: Path, sweep_model: type[M]) -> LaunchFile[M]:
    """Read and check all of a launch file, which is not changed. Raises LaunchFileError."""
    if not path.exists():
        raise LaunchFileError(f"{path}: there is no such file. {EXAMPLE}")
    document = read_document(path)
    sweep = check_part(document, sweep_model, SWEEP)
    ray_part = _read_as_ray_does(document)
    _refuse_hidden_sweep(document, ray_part)
    if "provider" in ray_part or _names_cluster(ray_part):
        require_cluster_extra(path)
    if "provider" in ray_part:
        from cudnn_sweep.cluster.ray_schema import check_ray_part

        check_ray_part(document, ray_part)
    else:
        _check_our_own(document, ray_part)
    return LaunchFile(path=path, sweep=sweep, ray_part=ray_part)


def no_launch_file(path: Path, sweep_model: type[M]) -> LaunchFile[M]:
    """As if `path` were an empty file: this machine, and every key's default."""
    return LaunchFile(path=path, sweep=sweep_model(), ray_part={})


def _names_cluster(ray_part: Mapping[str, object]) -> bool:
    return _inside(_inside(ray_part, "metadata"), "sweep").get("address") is not None


def _inside(mapping: Mapping[str, object], key: str) -> Mapping[str, object]:
    found = mapping.get(key)
    return found if isinstance(found, dict) else {}


def _read_as_ray_does(document: Document) -> Mapping[str, object]:
    try:
        found = yaml.safe_load(document.text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: the 45th of May
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        raise LaunchFileError(
            f"{document.file}{line}: PyYAML, with which Ray reads this file, refuses it: "
            f"{getattr(error, 'problem', None) or error}"
        ) from error
    return found or {}


def _refuse_hidden_sweep(document: Document, ray_part: Mapping[str, object]) -> None:
    """A sweep that only YAML 1.1 sees would be left out without a word."""
    if "sweep" in _inside(ray_part, "metadata") and document.find(SWEEP) is None:
        line = document.line(("metadata",))
        raise LaunchFileError(
            f"{document.file}:{line}: metadata.sweep: comes through a merge key (`<<`), "
            "which YAML 1.2 does not have: write it out"
        )


def _check_our_own(document: Document, ray_part: Mapping[str, object]) -> None:
    """Check what Ray's schema checks in a file with `provider`."""
    wrong = {key: _unknown(key) for key in document.key_lines() if key not in OUR_OWN}
    for key, wanted in OUR_OWN.items():
        if not isinstance(ray_part.get(key), wanted | None):
            words = "text" if wanted is str else "a mapping"
            wrong[key] = f"found `{ray_part[key]}`, wanted {words}"
    mistakes = [
        Mistake(line=document.line((key,)), key=(key,), text=text) for key, text in wrong.items()
    ]
    if mistakes:
        raise LaunchFileError("\n".join(mistake.show(document.file) for mistake in mistakes))


def _unknown(key: str) -> str:
    hint = "the sweep's own keys belong under `metadata: {sweep: ...}`, Ray's keys need `provider`"
    return f"{unknown_key(key, list(OUR_OWN))}; {hint}"
