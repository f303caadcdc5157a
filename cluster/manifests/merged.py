"""A user's keys in a pod's spec: mappings are merged, lists are joined, anything else replaces ours."""

from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from cudnn_sweep.cluster.manifests.resources import Resource


def merged(spec: Resource, keys: Mapping[str, JsonValue]) -> Resource:
    """`keys`: of the pod's spec; their one container's are merged into ours."""
    others = {key: value for key, value in keys.items() if key != "containers"}
    found: Resource = _merged(spec, others)
    theirs = keys.get("containers")
    if isinstance(theirs, list):
        (ours,) = found["containers"]
        found["containers"] = [_merged(ours, theirs[0])]
    return found


def _merged(ours: Any, theirs: Any) -> Any:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        both = {key: _merged(ours[key], theirs[key]) for key in ours if key in theirs}
        return {**ours, **theirs, **both}
    if isinstance(ours, list) and isinstance(theirs, list):
        return [*ours, *(each for each in theirs if each not in ours)]
    return theirs
