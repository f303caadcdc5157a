"""Reads the file that `sweep launch` takes: a Ray cluster-launcher file.

The sweep's own part, `metadata: {sweep: ...}`, is read strictly, as YAML 1.2. The rest is read as
Ray reads it, by PyYAML as YAML 1.1 (`off` is false), and Ray's validator checks it. A file without
`provider` describes no cluster, and may contain only `metadata` and `cluster_name`.
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
# What the extra `cluster`, ray[default], adds to Ray: the launcher, jobs and runtime environments use it.
CLUSTER_EXTRA = ("aiohttp", "aiohttp_cors", "virtualenv")
INSIDE = "auto"  # Ray's word for the address of the cluster that this machine is in

M = TypeVar("M")


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchFile(Generic[M]):
    path: Path
    sweep: M
    ray_part: Mapping[str, object]
    """The whole file as Ray sees it, `metadata` included."""


def read_launch_file(path: Path, sweep_model: type[M]) -> LaunchFile[M]:
    """Read and check a launch file, Ray's part included. Raises LaunchFileError."""
    if not path.exists():
        raise LaunchFileError(f"{path}: there is no such file. {EXAMPLE}")
    document = read_document(path)
    sweep = check_part(document, sweep_model, SWEEP)
    ray_part = _read_as_ray_does(document)
    metadata = ray_part.get("metadata")
    if isinstance(metadata, dict) and "sweep" in metadata and SWEEP not in document.values:
        text = "comes through a merge key (`<<`), which YAML 1.2 does not have: write it out"
        raise document.refusal([(SWEEP, text)])  # else it would be ignored silently
    address = document.values.get((*SWEEP, "address"))
    missing = [module for module in CLUSTER_EXTRA if find_spec(module) is None]
    if missing and ("provider" in ray_part or (address and address.plain is not None)):
        raise LaunchFileError(
            f"{path} asks for a cluster, for which {', '.join(missing)} is missing: "
            "pip install 'cudnn-sweep[cluster]'"
        )
    if "provider" in ray_part:
        check_ray_part(document, ray_part)
    else:
        _check_our_own(document, ray_part)
    return LaunchFile(path=path, sweep=sweep, ray_part=ray_part)


def no_launch_file(path: Path, sweep_model: type[M]) -> LaunchFile[M]:
    """Return the LaunchFile of an empty file at `path`: a run on this machine with all defaults."""
    return LaunchFile(path=path, sweep=sweep_model(), ray_part={})


def _read_as_ray_does(document: Document) -> Mapping[str, object]:
    try:
        return yaml.safe_load(document.text) or {}
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a 45th of May
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        raise LaunchFileError(
            f"{document.file}{line}: PyYAML, with which Ray reads this file, refuses it: "
            f"{getattr(error, 'problem', None) or error}"
        ) from error


def _check_our_own(document: Document, ray_part: Mapping[str, object]) -> None:
    """Check the keys of a file without `provider`. Ray's schema does not apply to such a file."""
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
            document.part(key)  # raises if the key occurs twice, which is the clearer error
    if mistakes:
        raise document.refusal(mistakes)
    kind, kinds = ray_part["provider"]["type"], sorted(providers._NODE_PROVIDERS)
    if kind not in kinds:
        text = f"found `{kind}`, Ray knows: {', '.join(kinds)}"
        raise document.refusal([(("provider", "type"), text)])
    try:
        with unheard():
            util.validate_config(with_defaults(ray_part))
    except Exception as error:  # of any class: Ray has none for a user's mistake
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
