"""The reference and the schemas know every key that the readers take. What they refuse is in the golden of mistakes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from reference.page import SECTIONS, every_def
from ruamel.yaml import YAML

from cudnn_sweep.cluster.errors import LaunchFileError
from cudnn_sweep.cluster.strict_yaml import read_strict
from cudnn_sweep.workloads.cells.suite import SuiteSpec
from tests.orchestrator.typed import invoke

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/launch-file.md").read_text()
LAUNCH_FILES = [
    ROOT / "cluster.yaml",
    *sorted(ROOT.glob("cluster/examples/*.yaml")),
    *sorted(ROOT.glob("docs/examples/*/launch.yaml")),
]
SUITES = [
    *sorted(ROOT.glob("workloads/suites/*.yaml")),
    *sorted(ROOT.glob("docs/examples/*/suite.yaml")),
    ROOT / "docs/losses.yaml",
]


@pytest.fixture(scope="module")
def schemas() -> dict[str, Draft202012Validator]:
    """As `sweep list schema` prints them."""
    found = {}
    for name in ("launch-file", "suite"):
        schema = json.loads(invoke(["list", "schema", name]).stdout)
        Draft202012Validator.check_schema(schema)
        found[name] = Draft202012Validator(schema)
    return found


@pytest.mark.parametrize("name", ["launch-file", "suite"])
def test_an_install_has_the_page_of_keys(name: str) -> None:
    """It comes with the package, which docs/ does not."""
    assert invoke(["list", "schema", name, "--page"]).stdout == PAGE


def content(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


@pytest.mark.parametrize(
    ("name", "file"),
    [*(("launch-file", file) for file in LAUNCH_FILES), *(("suite", file) for file in SUITES)],
    ids=lambda value: str(value).removeprefix(f"{ROOT}/"),
)
def test_schema_takes_every_file_that_is_shipped(
    name: str, file: Path, schemas: dict[str, Draft202012Validator]
) -> None:
    schemas[name].validate(content(file.read_text()))


def keys(schema: Any, at: str = "") -> Iterator[tuple[str, str]]:
    """Every key that a schema has a mapping for, with its sentence."""
    if isinstance(schema, list):
        for each in schema:
            yield from keys(each, at)
    if isinstance(schema, dict):
        for name, each in schema.get("properties", {}).items():
            yield f"{at}.{name}", each.get("description", "")
            yield from keys(each, f"{at}.{name}")
        for part in ("anyOf", "items", "additionalProperties"):
            yield from keys(schema.get(part), at)


def test_every_key_has_a_sentence_in_the_schema_and_on_the_page() -> None:
    defs = {name: each for name, each in every_def().items() if "properties" in each}
    assert set(defs) == set(SECTIONS), "a mapping without a section"
    for name, schema in defs.items():
        section = PAGE.partition(f"\n## {SECTIONS[name][0]}\n")[2].partition("\n## ")[0]
        for key, text in keys(schema, name):
            assert text, f"{key} has no docstring"
        for key, each in schema["properties"].items():
            (row,) = [line for line in section.splitlines() if line.startswith(f"- `{key}` (")]
            assert each["description"] in row
    for key, _ in keys(defs["CellAxes"], "CellAxes"):
        assert f"`{key.rpartition('.')[2]}" in PAGE


def test_reader_takes_the_keys_of_the_schema_and_no_other(tmp_path: Path) -> None:
    file = tmp_path / "suite.yaml"
    file.write_text("nothing: 1\n")
    with pytest.raises(LaunchFileError) as refused:
        read_strict(file, SuiteSpec)
    allowed = str(refused.value).partition("allowed: ")[2].partition("\n")[0].split(", ")
    assert set(allowed) == set(every_def()["SuiteSpec"]["properties"])


def test_path_of_a_schema_is_that_of_the_file_that_is_printed() -> None:
    path = Path(invoke(["list", "schema", "suite", "--path"]).stdout.strip())
    assert path.read_text() == invoke(["list", "schema", "suite"]).stdout
