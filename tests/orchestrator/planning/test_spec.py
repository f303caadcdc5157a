"""Which suite a launch file chooses, with which of its keys, and what its keys refuse."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from cudnn_sweep.cluster.launch_file import LaunchFile
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.request import request_of
from cudnn_sweep.orchestrator.planning.spec import (
    INLINE,
    NightlyKeys,
    SweepSpec,
    WebhookKeys,
    asked_file,
    choose_suite,
    launch_name,
    load_suite,
    results_of_the_launch_file,
)
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.cells.suite import CellAxes

CELLS = [CellAxes(workload="noop")]
OWN = """
replicates: 4
configs: [{benchmark: true}]
measure: {warmup_s: 0.5, steady_budget_s: 3.0}
without_gpu: {replicates: 2, configs: [{benchmark: false}], measure: {warmup_s: 0.1, steady_budget_s: 0.2}}
cells: [{workload: noop}]
"""
pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture(autouse=True)
def _own(here: Path) -> None:
    (here / "own.yaml").write_text(OWN)


@pytest.mark.parametrize(
    ("keys", "typed", "chosen"),
    [
        ({}, None, "quick"),
        ({"suite": "own.yaml"}, None, "own.yaml"),
        ({"suite": "quick"}, "own.yaml", "own.yaml"),
        ({"cells": CELLS}, None, INLINE),
        ({"cells": CELLS}, "own.yaml", "own.yaml"),
    ],
)
def test_a_typed_suite_comes_before_the_launch_files(
    keys: dict[str, Any], typed: str | None, chosen: str
) -> None:
    name, suite = choose_suite(SweepSpec(**keys), typed)
    assert name == chosen
    if chosen == INLINE:
        assert suite.cells == CELLS
    else:
        assert suite.cells == load_suite(chosen).cells


def test_keys_of_the_launch_file_replace_the_suites_also_without_a_gpu() -> None:
    _, plain = choose_suite(SweepSpec(), "own.yaml")
    assert plain == load_suite("own.yaml")
    keys: dict[str, Any] = {"replicates": 7, "configs": [Config()]}
    _, suite = choose_suite(SweepSpec(**keys), "own.yaml")
    assert (suite.replicates, suite.configs) == (7, [Config()])
    assert (suite.without_gpu.replicates, suite.without_gpu.configs) == (None, None)
    _, typed = choose_suite(SweepSpec(**keys), "own.yaml", 9)
    assert typed.replicates == 9
    _, measured = choose_suite(SweepSpec(measure=MeasureSpec(warmup_s=9.0)), "own.yaml")
    assert (measured.measure.warmup_s, measured.measure.steady_budget_s) == (9.0, 3.0)
    at_cpu = measured.without_gpu.measure
    assert at_cpu is not None and (at_cpu.warmup_s, at_cpu.steady_budget_s) == (9.0, 0.2)
    assert measured.without_gpu.replicates == 2
    _, quick = choose_suite(SweepSpec(cells=CELLS, measure=MeasureSpec(warmup_s=9.0)), None)
    assert quick.without_gpu.measure is None or quick.without_gpu.measure.warmup_s == 9.0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("quik", "unknown suite 'quik' .did you mean `quick`.*; allowed: "),
        ("gone.yaml", "^no file gone.yaml; allowed: "),
        ("gone.yml", "^no file gone.yml; allowed: "),
    ],
)
def test_a_suite_that_is_not_there_is_refused_with_those_that_are(name: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        load_suite(name)
    with pytest.raises(ValidationError, match=message.removeprefix("^")):
        SweepSpec(suite=name)
    with pytest.raises(ValidationError, match=message.removeprefix("^")):
        SweepSpec(nightly=NightlyKeys(suite=name))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"url_env": "HOOK"}, None),
        ({"url_file": "hook"}, None),
        ({}, "give either `url_env` or `url_file`"),
        ({"url_env": "HOOK", "url_file": "hook"}, "give either `url_env` or `url_file`"),
        ({"url_env": "https://hooks"}, "takes the name of a variable"),
        ({"url_file": "https://hooks"}, "takes the path of a file"),
    ],
)
def test_a_webhook_has_one_source_that_is_no_url(keys: dict[str, str], message: str | None) -> None:
    if message is None:
        assert WebhookKeys(**keys)  # type: ignore[arg-type]
        return
    with pytest.raises(ValidationError, match=message):
        WebhookKeys(**keys)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "is_taken"),
    [
        (None, True),
        ("https://ci.example/nights", True),
        ("https://me:secret@ci.example/nights", False),
        ("https://me@ci.example/nights", False),
    ],
)
def test_the_link_of_a_nights_page_has_no_user(url: str | None, is_taken: bool) -> None:
    if is_taken:
        assert NightlyKeys(report_url=url).report_url == url
        return
    with pytest.raises(ValidationError, match="takes a URL without user and password"):
        NightlyKeys(report_url=url)


def test_cells_and_a_suite_exclude_each_other() -> None:
    with pytest.raises(ValidationError, match="give `suite` or `cells`, not both"):
        SweepSpec(suite="quick", cells=CELLS)


@pytest.mark.parametrize(
    ("name", "cluster", "launch"),
    [
        ("mine", "lab", "mine"),
        (None, "lab", "lab"),
        (None, None, "my-file"),
        (None, "a lab/1", "a-lab-1"),
    ],
)
def test_nights_are_named_by_the_first_name_there_is(
    name: str | None, cluster: str | None, launch: str
) -> None:
    ray_part = {} if cluster is None else {"cluster_name": cluster}
    spec = SweepSpec(nightly=NightlyKeys(name=name))
    assert (
        launch_name(LaunchFile(path=Path("my file.yaml"), sweep=spec, ray_part=ray_part)) == launch
    )


@pytest.mark.parametrize("has_launch_file", [True, False])
@pytest.mark.parametrize(
    ("typed", "suite", "results", "file", "chosen", "note"),
    [
        (None, None, None, None, None, "Found no cluster.yaml. {} go to ./results."),
        (None, "quick", "else", None, "quick", "Found no cluster.yaml. {} go to else."),
        ("own.yaml", None, None, None, "own.yaml", "Found no cluster.yaml. {} go to ./results."),
        ("launch.yaml", "quick", None, "launch.yaml", "quick", ""),
        ("gone.yaml", None, None, "gone.yaml", None, ""),
    ],
)
def test_a_typed_file_is_a_suite_if_it_has_cells_and_no_metadata(
    here: Path,
    has_launch_file: bool,
    typed: str | None,
    suite: str | None,
    results: str | None,
    file: str | None,
    chosen: str | None,
    note: str,
) -> None:
    (here / "launch.yaml").write_text("cells: []\nmetadata: {sweep: {}}\n")
    if has_launch_file:
        (here / "cluster.yaml").write_text("metadata: {sweep: {results: kept}}\n")
        if file is None:
            file = "cluster.yaml"
            note = f"{typed} is a suite; cluster.yaml says where it runs." if typed else ""
    found = asked_file(typed and Path(typed), suite, results)  # type: ignore[arg-type]
    assert found[:2] == (file and Path(file), chosen)
    assert found[2] == note.format("The sweep runs on this machine. Its results")
    assert results_of_the_launch_file() == ("kept" if has_launch_file else "results")


def test_two_suites_are_refused() -> None:
    with pytest.raises(SpecError, match="found two suites, own.yaml and --suite quick"):
        asked_file(Path("own.yaml"), "quick", None)
    with pytest.raises(SpecError, match="net.py is a Python file; allowed: a launch file"):
        asked_file(Path("net.py"), None, None)


@pytest.mark.parametrize(
    ("keys", "typed", "minutes", "results"),
    [
        ({}, {}, None, "results"),
        ({"minutes": 5.0, "results": "kept"}, {}, 5.0, "kept"),
        ({}, {"minutes": 7.0, "results": "else"}, 7.0, "else"),
        ({"minutes": 5.0, "results": "kept"}, {"minutes": 7.0, "results": "else"}, 7.0, "else"),
    ],
)
def test_typed_minutes_and_results_come_before_the_launch_files(
    here: Path, keys: dict[str, Any], typed: dict[str, Any], minutes: float | None, results: str
) -> None:
    file = LaunchFile(path=Path("c.yaml"), sweep=SweepSpec(preload=["json"], **keys), ray_part={})
    request = request_of(file, LaunchOptions(replicates="4", **typed))
    assert request.budget_minutes == minutes
    assert Path(request.results) in (Path(results), here / results)
    assert (request.suite_name, request.suite.replicates) == ("quick", 4)
    assert request.preload == ("json",)


def test_the_suite_of_reported_cases_has_their_cells_and_no_other_suite_does() -> None:
    cells = load_suite("field").cells
    assert len(cells) > 20 and all(cell.configs for cell in cells)
    assert not any(cell.configs for cell in load_suite("quick").cells)
