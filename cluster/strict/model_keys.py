"""Which keys a pydantic model allows at a place: what an error about an unknown key has to list."""

from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import TypeAdapter

Schema = dict[str, Any]  # JSON Schema, as pydantic writes it


def allowed_keys(
    adapter: TypeAdapter[Any], path: Iterable[str | int], branches: Iterable[tuple[int, str]]
) -> list[str]:
    """The keys of the mapping at `path`, in the model's order; `branches` name the unions tried."""
    whole = adapter.json_schema()
    labels: dict[int, set[str]] = {}
    for depth, label in branches:
        labels.setdefault(depth, set()).add(label)

    schemas = _alternatives(whole, whole, labels.get(0, set()))
    for depth, step in enumerate(path, start=1):
        below = [schema for each in schemas for schema in _below(each, step)]
        schemas = [
            one for each in below for one in _alternatives(each, whole, labels.get(depth, set()))
        ]
    return list(dict.fromkeys(key for schema in schemas for key in schema.get("properties", ())))


def _below(schema: Schema, step: str | int) -> Iterator[Schema]:
    if isinstance(step, int):
        several = schema.get("prefixItems", ())
        below = several[step] if step < len(several) else schema.get("items")
    else:
        below = schema.get("properties", {}).get(step, schema.get("additionalProperties"))
    if isinstance(below, dict):
        yield below


def _alternatives(schema: Schema, whole: Schema, labels: set[str]) -> list[Schema]:
    """Resolve references and unions; among named alternatives keep the one that was tried."""
    found = list(_resolve(schema, whole, labels))
    tried = [each for each in found if each.get("title") in labels]
    return tried or found


def _resolve(schema: Schema, whole: Schema, labels: set[str]) -> Iterator[Schema]:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        yield from _resolve(whole["$defs"][name], whole, labels)
    elif "oneOf" in schema or "anyOf" in schema:
        tags = schema.get("discriminator", {}).get("mapping", {})
        tried = [{"$ref": tags[label]} for label in labels if label in tags]
        for each in tried or schema.get("oneOf", []) + schema.get("anyOf", []):
            yield from _resolve(each, whole, labels)
    else:
        yield schema
