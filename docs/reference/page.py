"""docs/launch-file.md: every key of the launch file and of a suite, from their JSON Schemas."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from reference.schema import launch_file_schema, suite_schema
from reference.texts import one_line

from cudnn_sweep.workloads.precision import PRECISIONS, Precision
from cudnn_sweep.workloads.problem import sizes_text
from cudnn_sweep.workloads.training.loss import LOSSES

LAUNCH_FILE, SUITE, BOTH = "a launch file", "a suite", "a launch file or a suite"
Schema = dict[str, Any]

INTRO = """\
# The launch file and the suite

Every key of the two files that `sweep launch` and `sweep nightly` read. Made by `make docs`; [sweeps.md](sweeps.md)
shows the usual ones.

A **launch file** says where a sweep runs and what it measures; our part is under `metadata.sweep`. A **suite** is a
file of cells and configs. A launch file names it, or `sweep launch my_suite.yaml` takes it alone. If a key is in both
files, the launch file's counts. A launch file with most of its parts:

```yaml
{launch_file}```

`sweep list suites` lists the bundled suites; [workloads/suites](../workloads/suites) has their files.

## In an editor

Editors with a YAML language server complete and check the keys of a file whose first line is

    # yaml-language-server: $schema=PATH

with the path that one of these prints:

    sweep list schema launch-file --path
    sweep list schema suite --path

Without `--path` they print the JSON Schema itself; with `--page`, this page.

## A launch file

The file is one of Ray's cluster launcher. All keys that are not here are
[Ray's](https://docs.ray.io/en/latest/cluster/vms/references/ray-cluster-configuration.html) and need `provider`;
[places.md](places.md) shows them.
"""

SECTIONS = {  # what the schema calls it: the heading, and where it stands
    "SweepSpec": ("metadata.sweep", LAUNCH_FILE),
    "NightlyKeys": ("nightly", "`metadata.sweep` of a launch file"),
    "WebhookKeys": ("webhook", "`nightly` of a launch file"),
    "SuiteSpec": ("A suite", "the top level of a suite's file"),
    "CellAxes": ("cells", BOTH),
    "BatchByDevice": ("batch", "a cell"),
    "PrecisionByDevice": ("precision", "a cell"),
    "ModelSpec": ("model", "a cell"),
    "TensorSpec": ("inputs", "`model`, each in a list or under its name"),
    "Expect": ("expect", "`model`"),
    "ListedChoice": ("Shapes from a file", "`regime` of a cell"),
    "ListedSpec": ("listed", "`regime` of a cell"),
    "Config": ("configs", BOTH),
    "MeasureSpec": ("measure", BOTH),
    "ProblemSpec": ("problems", f"{BOTH}, each under its name"),
    "UntilDecided": ("replicates", BOTH),
    "GpuChoice": ("gpus", BOTH),
    "WithoutGpu": ("without_gpu", SUITE),
}
NAMED = {  # key of a cell or model: the heading, and what its parameters are
    "regime": "Regimes",
    "state": "States",
    "optimiser": "Optimisers",
}
TYPES = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "`true` or `false`",
    "object": "mapping",
}


def launch_file_page(launch_file: str) -> str:
    """In Markdown; `launch_file` is the example that it begins with."""
    whole, defs = launch_file_schema(), every_def()
    lines = [INTRO.format(launch_file=launch_file), *_list(whole["properties"], ())]
    for name, (heading, where) in SECTIONS.items():
        lines += ["", f"## {heading}", "", f"In {where}. {defs[name]['description']}", ""]
        lines += _list(defs[name]["properties"], defs[name].get("required", ()))
    for key, heading in NAMED.items():
        lines += ["", f"## {heading}", "", *_named(key, defs)]
    lines += ["", "## Losses", ""]
    lines += [f"- `{name}`: {one_line(loss.__doc__)}" for name, loss in LOSSES.items()]
    lines += ["", "## Precisions", "", one_line(Precision.__doc__), ""]
    lines += ["| precision | numbers | convolutions of float32 | autocast |", "|---|---|---|---|"]
    lines += [
        _row(f"`{each.name}`", each.dtype, each.conv_fp32, each.autocast or "")
        for each in PRECISIONS.values()
    ]
    return "\n".join(lines) + "\n"


def every_def() -> dict[str, Schema]:
    """The schema of each mapping that the two files have, by the name of its model."""
    launch_file, suite = launch_file_schema(), suite_schema()
    return {**launch_file["$defs"], **suite["$defs"], "SuiteSpec": suite}


def _list(properties: Mapping[str, Schema], required: Iterable[str]) -> Iterator[str]:
    """A line a key: its type, what it is where it is not given, and its meaning."""
    for key, schema in properties.items():
        default = "required" if key in required else _default(schema)
        kind = "" if _is_plain(schema) and default.startswith("default") else _type(key, schema)
        kind = ", ".join(filter(None, (kind, default)))
        yield f"- `{key}` ({kind}): {schema.get('description', '')}"


def _is_plain(schema: Schema) -> bool:
    """Whether the default shows the type as well."""
    is_simple = schema.get("type") in ("string", "integer", "number", "boolean")
    return is_simple and not {"enum", "maximum", "exclusiveMaximum"} & set(schema)


def _named(key: str, defs: Mapping[str, Schema]) -> Iterator[str]:
    """What the key may name, with the parameters of each."""
    owner = "ModelSpec" if key == "optimiser" else "CellAxes"
    alternatives = defs[owner]["properties"][key]["anyOf"]
    ways = [way for each in alternatives for way in each.get("oneOf", [each])]
    (choices,) = (each["properties"] for each in ways if "properties" in each)
    example = next(name for name, each in choices.items() if each["properties"])
    parameter = next(reversed(choices[example]["properties"]))
    yield (
        f"`{key}` takes a name, or a name with parameters: "
        f"`{{{example}: {{{parameter}: {choices[example]['properties'][parameter]['default']}}}}}`. "
        "In parentheses are the parameters' defaults."
    )
    several = _of_several(choices.values())
    yield from (f"`{each}`: {text}" for each, text in several.items())
    yield ""
    for name, choice in choices.items():
        parameters = choice["properties"]
        shown = ", ".join(f"`{each}: {schema['default']}`" for each, schema in parameters.items())
        own = [
            f"`{each}`: {schema['description']}"
            for each, schema in parameters.items()
            if schema["description"] not in (choice["description"], several.get(each))
        ]
        with_defaults = f" ({shown})" if shown else ""
        yield f"- `{name}`{with_defaults}: {' '.join([choice['description'], *own])}"


def _of_several(choices: Iterable[Schema]) -> dict[str, str]:
    """Parameters that at least two choices explain alike."""
    count = Counter(
        (name, each["description"])
        for choice in choices
        for name, each in choice["properties"].items()
        if each["description"] != choice["description"]
    )
    return {name: text for (name, text), times in count.items() if times > 1}


def _type(key: str, schema: Schema) -> str:
    if key in NAMED:
        takes_list = any(each.get("type") == "array" for each in schema["anyOf"])
        return f"[{key}](#{NAMED[key].lower()}){', or a list' if takes_list else ''}"
    if key == "suite":
        return "a bundled suite or a .yaml file"
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name not in SECTIONS:
            return "any value"
        heading = SECTIONS[name][0]
        return f"[{heading}](#{heading.replace('.', '')})"
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if ways := schema.get("anyOf") or schema.get("oneOf"):
        kinds = [_type(key, each) for each in ways if each.get("type") != "null"]
        lists = [f"list of {kind}" for kind in kinds]
        alone = list(dict.fromkeys(kind for kind in kinds if kind not in lists))
        listed = ", or a list" if len(alone) < len(kinds) else ""
        return " or ".join(alone) + listed
    return _simple_type(key, schema)


def _simple_type(key: str, schema: Schema) -> str:
    if "examples" in schema:
        return f"sizes such as `{schema['examples'][0]}`"
    if schema.get("pattern") == r".+:.+":
        return "`FILE.py:NAME`, `MODULE:NAME`"
    if schema.get("type") == "array":
        return f"list of {_type(key, schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"mapping of {_type(key, schema['additionalProperties'])}"
    kinds = schema.get("type", "anything")
    kind = kinds if isinstance(kinds, str) else next(each for each in kinds if each != "null")
    return TYPES.get(kind, kind) + _limits(schema)


def _limits(schema: Schema) -> str:
    limits = {
        "minimum": "from",
        "exclusiveMinimum": "above",
        "maximum": "to",
        "exclusiveMaximum": "below",
    }
    return "".join(f" {word} {schema[key]:,}" for key, word in limits.items() if key in schema)


def _default(schema: Schema) -> str:
    default = schema.get("default")
    if default in (None, [], {}) or "$ref" in schema.get("items", schema):
        return ""
    if isinstance(default, list):
        return f"default `{sizes_text(tuple(default))}`"
    return f"default `{json.dumps(default)}`".replace('"', "")


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
