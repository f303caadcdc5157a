"""What a suite of an audit says of a model, its arguments and its convolutions, and what the user has to add."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from cudnn_sweep.orchestrator.auditing.audit import (
    Inputs,
    called_with,
    model_inputs,
    suite_text,
    what_it_takes,
    what_to_add,
    why_no_suite,
)
from cudnn_sweep.workloads.auditing.findings import (
    Argument,
    Convolution,
    InputShape,
    Making,
    Sizes,
    SourceLine,
)
from tests.orchestrator.auditing.test_input_shapes import FINDINGS, NET, inputs_of
from tests.orchestrator.blank import blank

SHAPES = Path("shapes.csv")
IMAGE = (("batch",), (3,), ("height",), ("width",))


@pytest.fixture
def net(here: Path) -> Inputs:
    return inputs_of({(8, 3, 64, 32): (5, 0)})


def cell(inputs: Inputs, *convolutions: Convolution) -> Any:
    text = suite_text(inputs, replace(FINDINGS, convolutions=convolutions), SHAPES)
    return None if text is None else YAML(typ="safe", pure=True).load(text)["cells"][0]


@pytest.mark.parametrize(
    ("name", "module", "file", "workload"),
    [
        ("Net", "nets", None, "nets:Net"),
        ("Net", "nets", "HERE/lib/nets.py", "lib/nets.py:Net"),
        ("Net", "nets", "HERE/../nets.py", "nets:Net"),
        ("Net", "torchvision.models", None, "torchvision.models:Net"),
        ("Conv2d", "torch.nn.modules.conv", "HERE/torch/nn.py", None),
        ("Outer.Net", "nets", "HERE/nets.py", None),
        ("make.<locals>.Net", "nets", "HERE/nets.py", None),
        ("Net", "__main__", "HERE/train.py", "train.py:Net"),
        ("Net", "__main__", "HERE/../train.py", "HERE/../train.py:Net"),
        ("Net", "__main__", None, None),
    ],
)
def test_a_model_is_named_by_its_file_here_or_else_its_module(
    here: Path,
    net: Inputs,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    module: str,
    file: str | None,
    workload: str | None,
) -> None:
    (here / "work").mkdir()
    monkeypatch.chdir(here / "work")

    def path(text: str | None) -> str | None:
        return text and text.replace("HERE/..", str(here)).replace("HERE", str(here / "work"))

    model = replace(net.model, name=name, module=module, file=path(file))
    for script in (here / "train.py", here / "work/train.py"):
        script.touch()
    found = cell(replace(net, model=model))
    assert (found and found["workload"]) == path(workload)


def test_why_no_suite_can_name_a_model_is_the_class_or_its_place() -> None:
    of_torch = replace(NET, name="Conv2d", module="torch.nn.modules.conv")
    assert "because it is a class of torch. " in why_no_suite(of_torch)
    inside = replace(NET, name="Outer.Net", module="torchvision.models")
    assert "because it is not a top-level class of a file. " in why_no_suite(inside)


def convolution(calls: int, dtype: str, *, tf32: bool = False, autocast: bool = False) -> Any:
    return blank(
        Convolution,
        calls=calls,
        dtype=dtype,
        allow_tf32=tf32,
        autocast_at_first=autocast,
        memory_format="channels_last" if tf32 else "contiguous",
    )


@pytest.mark.parametrize(
    ("dtype", "tf32", "autocast", "precision"),
    [
        ("float32", True, False, "tf32"),
        ("float32", False, False, "fp32"),
        ("float32", False, True, "fp32"),
        ("bfloat16", True, False, "bf16"),
        ("float16", False, False, "fp16"),
        ("bfloat16", False, True, "amp_bf16"),
        ("bfloat16", True, True, "amp_bf16"),
        ("float16", False, True, "amp_fp16"),
        ("float64", False, False, None),
        ("float64", True, True, None),
    ],
)
def test_precision_and_layout_are_of_the_convolution_with_the_most_calls(
    net: Inputs, dtype: str, tf32: bool, autocast: bool, precision: str | None
) -> None:
    usual = convolution(5, dtype, tf32=tf32, autocast=autocast)
    for others in ((usual, convolution(4, "float32")), (convolution(1, "float16"), usual)):
        found = cell(net, *others)
        assert found.get("precision") == precision
        assert found["layout"] == ("channels_last" if tf32 else "contiguous")
    assert {"precision", "layout"}.isdisjoint(cell(net))


def test_the_first_model_with_shapes_and_the_name_is_written() -> None:
    shapes = (InputShape(shape=(8, 3, 4, 4), training=1, inference=0),)
    at = SourceLine(file="/a/nets.py", line=7, function="build")
    made = replace(NET, name="B", shapes=shapes, made=Making(at=at, arguments={}, others=[]))
    found = replace(FINDINGS, models=(NET, replace(NET, name="A", shapes=shapes), made))
    names = {name: model_inputs(found, name) for name in (None, "A", "B", "Net", "/a/nets.py:7")}
    assert {name: each and each.model.name for name, each in names.items()} == {
        None: "A",
        "A": "A",
        "B": "B",
        "Net": None,
        "/a/nets.py:7": "B",
    }


@pytest.mark.parametrize(
    ("shapes", "counts", "left_out"),
    [
        ({(8, 3, 4, 4): (2, 0), (4, 3, 4, 4): (7, 0)}, [((4, 3, 4, 4), 7), ((8, 3, 4, 4), 2)], 0),
        ({(8, 3, 4, 4): (3, 0), (8, 1, 4, 4): (2, 0), (4, 1, 4, 4): (2, 0)}, None, 3),
        ({(8, 3, 4, 4): (3, 9), (1, 3, 9, 9): (0, 9)}, [((8, 3, 4, 4), 3)], 0),
        ({(2, 1, 9, 8, 7): (1, 0), (2, 1, 9, 8, 7, 6): (5, 0)}, [((2, 1, 9, 8, 7), 1)], 5),
    ],
)
def test_shapes_with_the_most_calls_agree_in_channels_and_the_others_are_counted(
    shapes: dict[Sizes, tuple[int, int]], counts: list[Any] | None, left_out: int
) -> None:
    found = inputs_of(shapes)
    assert found.left_out == left_out
    assert list(found.counts) == (counts or [((8, 1, 4, 4), 2), ((4, 1, 4, 4), 2)])
    assert found.usual == found.counts[0][0]


def argument(name: str | int, kind: str = "float32", shape: Any = IMAGE, **of: Any) -> Argument:
    return Argument(**{"training": True, "key": None} | of, name=name, kind=kind, shape=shape)


def tensor(*shape: str | int, **of: Any) -> dict[str, Any]:
    return {"shape": list(shape), **of}


X = tensor("batch", 3, "height", "width")


@pytest.mark.parametrize(
    ("given", "inputs", "obstacles"),
    [
        ([argument(0)], None, []),
        ([argument(0, training=False)], None, []),
        ([argument("x")], {"x": X}, []),
        ([argument(0, "int64")], [{**X, "dtype": "int64", "below": 2}], []),
        ([argument(0), argument(1, "bool", ((8,), (1,)))], [X, tensor(8, 1, dtype="bool")], []),
        ([argument(0), argument("mask", "NoneType", None)], None, []),
        ([argument(0), argument(1, "NoneType", None)], None, ["mask (NoneType)"]),
        ([argument(0), argument("scale", "float", None)], {"x": X}, ["scale (float)"]),
        ([argument(0), argument(1, "int", None)], None, ["mask (int)"]),
        ([argument(0), argument("z")], {"x": X, "z": X}, []),
        ([argument(3), argument("z")], {3: X, "z": X}, []),
        ([argument(0, key="a"), argument(0, key="b")], [{"a": X, "b": X}], []),
        ([argument(0, key="a.b")], None, ["x['a.b'] (in a dict)"]),
        ([argument("x", key="a")], None, ["x['a'] (in a dict)"]),
        ([argument("graph", "list", None)], None, ["graph (list)"]),
    ],
)
def test_arguments_of_a_model_are_in_a_suites_words(
    given: list[Argument], inputs: object, obstacles: list[str]
) -> None:
    model = replace(NET, parameters=("x", "mask", "more"), arguments=tuple(given))
    assert called_with(model, True, ("height", "width")) == (inputs, obstacles)
    advice = what_it_takes(model, True, ("height", "width"))
    assert len(advice) == bool(obstacles)
    assert all(obstacle in advice[0] for obstacle in obstacles)


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((("batch",), (3,)), ["batch", 3]),
        (((8,), (3,)), [8, 3]),
        ((("height",), (3,)), ["height", 3]),
        ((("batch",), ("height",), ("width",)), ["batch", "height", "width"]),
        ((("batch",), ("width",), ("height",)), ["batch", "width", "height"]),
        ((("batch",), (7, "height"), (7, "width")), ["batch", "height", "width"]),
        ((("batch",), ("height",), (7,)), ["batch", "height", 7]),
        ((("batch",), (7, "height"), (7,)), ["batch", 7, 7]),
        ((("batch", "height"), ("width",)), ["batch", "width"]),
        ((("batch",), (0,)), None),
    ],
)
def test_a_tensors_sizes_follow_those_of_the_first(shape: Any, sizes: list[Any] | None) -> None:
    model = replace(NET, arguments=(argument("x", shape=shape),))
    inputs, obstacles = called_with(model, True, ("height", "width"))
    assert (inputs and inputs["x"]["shape"]) == sizes
    assert bool(obstacles) is (sizes is None)


def test_a_placeholder_and_what_is_lacking_are_in_the_first_lines(net: Inputs, here: Path) -> None:
    def head(**of: Any) -> list[str]:
        text = suite_text(replace(net, model=replace(net.model, **of)), FINDINGS, SHAPES)
        assert text is not None
        return [line for line in text.splitlines() if line.startswith("#")]

    at = SourceLine(file=str(here / "nets.py"), line=7, function="build")
    made = Making(at=at, arguments={"width": 4}, others=[])
    assert len(head(made=made)) == 1
    labels = argument("y", "int64", (("batch",),))
    assert "# Replace the value of `below`" in head(made=made, arguments=(labels,))[1]
    copied, made_from = head(), head(made=replace(made, others=["norm (type)"]))
    assert copied[1].startswith(
        "# Net is a copy of another model. Put the code that makes it into a function"
    )
    assert made_from[1].startswith(
        "# Net is made from norm (type), which suites cannot contain. Put"
    )
    assert len(copied) == len(made_from) == 2


@pytest.mark.parametrize(
    ("module", "text", "trains"),
    [
        ("__main__", "train()\n", True),
        ("__main__", 'if __name__ == "__main__":\n    train()\n', False),
        ("train", "train()\n", False),
    ],
)
def test_a_script_that_trains_when_it_is_imported_needs_a_guard(
    here: Path, net: Inputs, module: str, text: str, trains: bool
) -> None:
    (here / "train.py").write_text(text)
    at = SourceLine(file=str(here / "train.py"), line=1, function="train")
    making = Making(at=at, arguments={}, others=[])
    model = replace(net.model, module=module, file=str(here / "train.py"), made=making)
    lacking = what_to_add(replace(net, model=model))
    assert [line.partition(". ")[0] for line in lacking] == [
        "train.py trains when it is imported"
    ] * trains


def test_the_models_own_loss_counts_in_training_alone(here: Path) -> None:
    for calls, loss in (((5, 0), "own"), ((0, 5), None)):
        inputs = inputs_of({(8, 3, 64, 32): calls})
        found = cell(replace(inputs, model=replace(inputs.model, own_loss=True)))
        assert found.get("model", {}).get("loss") == loss
        assert found["direction"] == ("training" if loss else "inference")
        assert found["input"] == "8x3x64x32"
    assert "model" not in cell(inputs)
