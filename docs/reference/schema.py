"""JSON Schemas of the launch file and of a suite, made from the models that read them.

`make docs` writes them into orchestrator/schemas/; editors take them, and `sweep list schema` says where they are.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema
from reference.texts import field_texts, first_paragraph, one_line

from cudnn_sweep.orchestrator.planning.spec import SweepSpec, suite_names
from cudnn_sweep.workloads.cells.suite import ALL_REGIMES, SuiteSpec
from cudnn_sweep.workloads.find_regime import regime_types
from cudnn_sweep.workloads.find_state import state_types
from cudnn_sweep.workloads.layout import LAYOUTS
from cudnn_sweep.workloads.precision import PRECISIONS
from cudnn_sweep.workloads.training.choice import OPTIMISERS
from cudnn_sweep.workloads.training.loss import LOSSES

DRAFT = "https://json-schema.org/draft/2020-12/schema"
PARAMETER_TYPES: dict[object, str] = {int: "integer", float: "number", str: "string"}
OWN = {"type": "string", "pattern": r".+:.+"}  # FILE.py:NAME or MODULE:NAME


def launch_file_schema() -> JsonSchemaValue:
    """The JSON Schema of a launch file; Ray's own keys, which need `provider`, are Ray's to check."""
    sweep = _schema(SweepSpec)
    defs = sweep.pop("$defs")
    return {
        "$schema": DRAFT,
        "title": "Launch file of cudnn-sweep",
        "type": "object",
        "properties": {
            "cluster_name": {
                "type": ["string", "null"],
                "description": "Name of the cluster and of its nights.",
            },
            "metadata": {
                "type": ["object", "null"],
                "description": "Ray leaves this key to users.",
                "properties": {"sweep": {"$ref": "#/$defs/SweepSpec"}},
            },
            "provider": {
                "type": "object",
                "description": "Where Ray starts machines. Without it the sweep runs on this machine, or "
                "on the cluster that `address` names.",
            },
        },
        "if": {"not": {"required": ["provider"]}},
        "then": {"propertyNames": {"enum": ["cluster_name", "metadata"]}},
        "$defs": defs | {"SweepSpec": sweep},
    }


def suite_schema() -> JsonSchemaValue:
    return {"$schema": DRAFT, **_schema(SuiteSpec), "title": "Suite of cudnn-sweep"}


SCHEMAS: dict[str, Callable[[], JsonSchemaValue]] = {
    "launch-file": launch_file_schema,
    "suite": suite_schema,
}


def schema_text(name: str) -> str:
    return json.dumps(SCHEMAS[name](), indent=1, ensure_ascii=False) + "\n"


def _schema(model: type[BaseModel]) -> JsonSchemaValue:
    return model.model_json_schema(schema_generator=_Explained)


class _Explained(GenerateJsonSchema):
    """With each field's sentence, and the names that are known where the model takes any text."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return _explained(super().model_schema(schema), schema["cls"])

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        return _explained(super().dataclass_schema(schema), schema["cls"])


def _explained(schema: JsonSchemaValue, kind: type) -> JsonSchemaValue:
    texts, known = field_texts(kind), _known()
    schema["description"] = first_paragraph(schema.get("description"))
    schema["properties"] = {
        name: {"description": texts.get(name, "")} | _narrowed(each, known.get(name, {}))
        for name, each in schema.get("properties", {}).items()
    }
    return schema


def _narrowed(schema: JsonSchemaValue, known: Mapping[str, JsonSchemaValue]) -> JsonSchemaValue:
    """Text and mappings in it are replaced by what is known of them."""
    kind = schema.get("type")
    if isinstance(kind, str) and kind in known:
        return known[kind] | {"default": schema["default"]} if "default" in schema else known[kind]
    inner: dict[str, Any] = {}
    for way in ("anyOf", "oneOf"):
        if way in schema:
            inner[way] = [_narrowed(each, known) for each in schema[way]]
    if "items" in schema:
        inner["items"] = _narrowed(schema["items"], known)
    return schema | inner


@cache
def _known() -> dict[str, dict[str, JsonSchemaValue]]:
    """By key, then by the type that the model has for it."""
    suite = {"anyOf": [_enum(suite_names()), {"type": "string", "pattern": r"\.ya?ml$"}]}
    regimes = [*sorted(regime_types()), ALL_REGIMES]
    precision = {"string": _enum(PRECISIONS)}
    return {
        "suite": {"string": suite},
        "precision": precision,
        "cuda": precision,  # a batch's are numbers
        "cpu": precision,
        "layout": {"string": _enum(LAYOUTS)},
        "loss": {"string": {"anyOf": [_enum(LOSSES), OWN]}},
        "regime": {
            "string": {"anyOf": [_enum(regimes), OWN]},
            "object": _with_parameters(regime_types())
            | {"patternProperties": {OWN["pattern"]: {}}},
        },
        "inputs": {"string": OWN},
        "state": {
            "string": _enum(sorted(state_types())),
            "object": _with_parameters(state_types()),
        },
        "optimiser": {"string": _enum(OPTIMISERS), "object": _with_parameters(OPTIMISERS)},
    }


def _enum(names: Iterable[str]) -> JsonSchemaValue:
    return {"enum": list(names)}


def _with_parameters(kinds: Mapping[str, type]) -> JsonSchemaValue:
    return {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
        "properties": {name: _parameters(kinds[name]) for name in sorted(kinds)},
    }


def _parameters(kind: Any) -> JsonSchemaValue:
    texts, about = field_texts(kind), one_line(kind.__doc__)
    return {
        "type": "object",
        "description": about,
        "additionalProperties": False,
        "properties": {
            each.name: {
                "type": PARAMETER_TYPES[each.type],
                "default": each.default,
                "description": texts.get(each.name, about),
            }
            for each in fields(kind)
        },
    }
