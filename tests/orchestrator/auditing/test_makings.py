"""How the models of a script were made, and what a suite says of it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from cudnn_sweep.orchestrator.auditing.audit import (
    model_inputs,
    suite_text,
    what_to_add,
    why_no_suite,
)
from cudnn_sweep.orchestrator.terminal.audit_view import made_at
from cudnn_sweep.workloads.auditing.findings import Findings, Making, SourceLine
from tests.orchestrator.auditing.audited import SCRIPTS, audit, findings_of
from tests.orchestrator.auditing.test_input_shapes import FINDINGS, inputs_of


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("makings")
        patch.chdir(folder)
        Path("library.py").write_text(
            "from torch import nn\ndef make(*x):\n    return nn.Sequential(*x)\n"
        )
        return findings_of(audit(SCRIPTS["makings"]))


@pytest.mark.slow
def test_each_model_has_its_line_and_its_arguments(found: Findings) -> None:
    """The line of a script has a comment, which is the model's name here."""
    texts = SCRIPTS["makings"].splitlines()
    made = [each.made for each in found.models if each.made is not None]
    told = [
        (texts[each.at.line - 1].rpartition("# ")[2], each.arguments, each.others)
        for each in made
        if each.at.file.endswith("script.py")
    ]
    assert sorted(told, key=str) == sorted(
        [
            ("plain", {"width": 4, "depth": 3}, []),
            ("child", {"width": 5, "sizes": [1, 2], "names": {"a": [1.5, None], "b": True}}, []),
            ("others", {"width": 2}, ["norm (type)", "names (list)"]),
            ("base", {"width": 3, "extra": "x"}, ["* (int)", "* (int)"]),
            ("block", {}, ["* (Conv2d)"]),
            ("sequential", {}, []),
            ("again", {}, []),
            ("once", {"width": 1}, []),
            ("in a loop", {"width": 1}, []),
            ("in a loop", {"width": 2}, []),
        ],
        key=str,
    )
    (in_library,) = (each.at for each in made if each.at.file.endswith("library.py"))
    assert (in_library.line, in_library.function) == (3, "make")
    assert [each.name for each in found.models if each.made is None] == ["Net"], "the copy"
    assert [
        each.calls for each in found.models if each.made and "width" in each.made.arguments
    ] == [
        2,
        *[1] * 6,
    ], "two of a loop were made alike"


@pytest.mark.slow
def test_suite_has_the_arguments_and_what_a_launch_must_find(found: Findings) -> None:
    for line, arguments, channels in ((32, {"width": 4, "depth": 3}, 4), (43, {"width": 1}, 1)):
        (named,) = {each for each in map(made_at, found.models) if str(each).endswith(f"py:{line}")}
        inputs = model_inputs(found, named)
        assert inputs is not None
        text = suite_text(inputs, found, Path("shapes.csv"))
        (cell,) = YAML(typ="safe", pure=True).load(text)["cells"]
        expected = {"parameters": 28 * channels, "convolutions": 1}
        assert cell["model"] == {"arguments": arguments, "expect": expected}


def test_convolutions_are_expected_if_all_calls_had_as_many() -> None:
    shapes = inputs_of({(8, 3, 4, 4): (5, 0)})

    def expected(**told: Any) -> object:
        inputs = replace(shapes, model=replace(shapes.model, **told))
        text = suite_text(inputs, FINDINGS, Path("shapes.csv"))
        return YAML(typ="safe", pure=True).load(text)["cells"][0].get("model")

    assert expected(elements=9, in_a_call=((True, 4), (False, 2))) == {
        "expect": {"parameters": 9, "convolutions": 4}
    }
    assert expected(elements=9, in_a_call=((True, 4), (True, 5))) == {"expect": {"parameters": 9}}
    assert expected(elements=9, in_a_call=((True, 4),), wrapped_in="DataParallel") == {
        "expect": {"parameters": 9}
    }
    assert expected(elements=0, in_a_call=((True, 4),)) == {"expect": {"convolutions": 4}}
    assert expected(elements=0, in_a_call=((True, 0),)) is None


@pytest.mark.slow
def test_what_a_class_and_plain_values_do_not_make_is_put_into_a_function(
    here: Path, found: Findings
) -> None:
    containers = [each for each in found.models if each.name == "Sequential"]
    assert len(containers) == 3
    for each in containers:
        inputs = inputs_of({(8, 3, 4, 4): (5, 0)})
        assert suite_text(replace(inputs, model=each), found, Path("shapes.csv")) is None
    at = SourceLine(file=str(here / "nets" / "build.py"), line=7, function="build")
    making = Making(at=at, arguments={}, others=["config (Config)"])
    torchs = replace(containers[0], made=making)
    function = (
        "Put the code at nets/build.py:7 (build) into a function that returns the model, and name "
        "it: `workload: nets/build.py:NAME`"
    )
    assert why_no_suite(torchs) == (
        f"A suite cannot refer to Sequential because it is a class of torch. {function}"
    )
    net = inputs_of({(8, 3, 4, 4): (5, 0)})
    lacking = what_to_add(replace(net, model=replace(net.model, made=making)))
    assert lacking == [f"Net is made from config (Config), which suites cannot contain. {function}"]
    copied = replace(torchs, made=None, name="make.<locals>.Net", module="nets")
    assert why_no_suite(copied) == (
        "A suite cannot refer to make.<locals>.Net because it is not a top-level class of a file. Put the code that makes it "
        "into a function that returns the model, and name it: `workload: FILE.py:NAME`"
    )
