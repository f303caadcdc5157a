"""Reads a launch file: a cluster-launcher file of Ray with the key `metadata: {sweep: ...}`.

The part `sweep` is read as strict YAML 1.2. Ray's parser reads the rest as YAML 1.1, and Ray's
validator checks it. A file without `provider` describes no cluster.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, TypeVar

import yaml  # type: ignore[import-untyped]

from cudnn_sweep.cluster.errors import LaunchFileError
from cudnn_sweep.cluster.jobs.launcher import unheard, with_defaults
from cudnn_sweep.cluster.strict_yaml import (
    Document,
    Mistake,
    check_part,
    read_document,
    unknown_key,
)

SWEEP = ("metadata", "sweep")
OUR_OWN: dict[str, type] = {"cluster_name": str, "metadata": dict}  # allowed without `provider`

EXAMPLE = """A launch file for this machine:

    metadata:
      sweep:
        suite: quick
        results: results
        nightly: {suite: nightly}  # what `sweep nightly` runs
"""
CLUSTER_EXTRA = ("aiohttp", "aiohttp_cors", "virtualenv")
INSIDE = "auto"  # Ray's name for the cluster of this machine

M = TypeVar("M")


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchFile(Generic[M]):
    path: Path
    sweep: M
    ray_part: Mapping[str, object]
    """The whole file, as Ray parses it."""


def read_launch_file(path: Path, sweep_model: type[M]) -> LaunchFile[M]:
    """Read and check a launch file. Raises LaunchFileError."""
    if not path.exists():
        raise LaunchFileError(f"{path}: there is no such file. {EXAMPLE}")
    document = read_document(path)
    sweep = check_part(document, sweep_model, SWEEP)
    ray_part = _read_as_ray_does(document)
    metadata = ray_part.get("metadata")
    if isinstance(metadata, dict) and "sweep" in metadata and SWEEP not in document.values:
        text = "comes through a merge key (`<<`), which YAML 1.2 does not have: write it out"
        raise document.refusal([(SWEEP, text)])  # otherwise it would be ignored
    address = document.values.get((*SWEEP, "address"))
    missing = [module for module in CLUSTER_EXTRA if find_spec(module) is None]
    if missing and ("provider" in ray_part or (address and address.plain is not None)):
        raise LaunchFileError(
            f"{path} uses a cluster, for which {', '.join(missing)} is not installed: "
            "pip install 'cudnn-sweep[cluster]'"
        )
    if "provider" in ray_part:
        check_ray_part(document, ray_part)
    else:
        _check_our_own(document, ray_part)
    return LaunchFile(path=path, sweep=sweep, ray_part=ray_part)


def no_launch_file(path: Path, sweep_model: type[M]) -> LaunchFile[M]:
    return LaunchFile(path=path, sweep=sweep_model(), ray_part={})


def _read_as_ray_does(document: Document) -> Mapping[str, object]:
    try:
        return yaml.safe_load(document.text) or {}
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: no such date
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        raise LaunchFileError(
            f"{document.file}{line}: Ray's YAML parser refuses the file: "
            f"{getattr(error, 'problem', None) or error}"
        ) from error


def _check_our_own(document: Document, ray_part: Mapping[str, object]) -> None:
    keys = [str(path[0]) for path in document.values if len(path) == 1]
    hint = "the sweep's own keys belong under `metadata: {sweep: ...}`, Ray's keys need `provider`"
    unknown = [key for key in keys if key not in OUR_OWN]
    wrong = {key: f"{unknown_key(key, OUR_OWN)}; {hint}" for key in unknown}
    for key, wanted in OUR_OWN.items():
        if not isinstance(ray_part.get(key), wanted | None):
            words = "text" if wanted is str else "a mapping"
            wrong[key] = f"found `{ray_part[key]}`, wanted {words}"
    if wrong:
        raise document.refusal(((key,), text) for key, text in wrong.items())


def check_ray_part(document: Document, ray_part: Mapping[str, Any]) -> None:
    """Raise LaunchFileError for a file that `ray up` would refuse."""
    import jsonschema  # type: ignore[import-untyped]
    from ray.autoscaler._private import providers, util

    schema = json.loads(files("ray.autoscaler").joinpath("ray-schema.json").read_text())
    validator = jsonschema.validators.validator_for(schema)(schema)
    mistakes = [mistake for error in validator.iter_errors(ray_part) for mistake in _explain(error)]
    for key, _ in mistakes:
        if key:
            document.part(key)  # raises a clearer error if the key occurs twice
    if mistakes:
        raise document.refusal(mistakes)
    kind, kinds = ray_part["provider"]["type"], sorted(providers._NODE_PROVIDERS)
    if kind not in kinds:
        text = f"found `{kind}`, allowed: {', '.join(kinds)}"
        raise document.refusal([(("provider", "type"), text)])
    try:
        with unheard():
            util.validate_config(with_defaults(ray_part))
    except Exception as error:  # Ray raises errors of many classes
        words = str(error) if " " in str(error) else f"{type(error).__name__} {error}"
        raise LaunchFileError(f"{document.file}: Ray refuses it: {words}") from error


def _explain(error: Any) -> Iterator[Mistake]:
    at = tuple(error.absolute_path)
    if error.validator == "additionalProperties" and error.validator_value is False:
        allowed = error.schema["properties"]
        for key in (str(key) for key in error.instance if key not in allowed):
            yield (*at, key), f"{unknown_key(key, allowed)} (Ray's schema)"
    else:
        yield at, f"{error.message} (Ray's schema)"
