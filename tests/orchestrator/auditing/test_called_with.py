"""What a model was called with, in a suite's words."""

import pytest
from torch import Tensor, nn

from cudnn_sweep.orchestrator.auditing.audit import called_with
from cudnn_sweep.workloads.auditing.findings import Sizes
from cudnn_sweep.workloads.auditing.models import ModelCalls
from cudnn_sweep.workloads.models.inputs import INPUTS, as_json

Given = tuple[str | int, str | None, str, Sizes | None]


class Net(nn.Module):
    def forward(self, image: Tensor, date: Tensor) -> None: ...


def described(*calls: list[Given]) -> tuple[object, list[str]]:
    """As a suite reads it."""
    noted = ModelCalls(Net(), None)
    for given in calls:
        noted.note(tuple(given), 1, True, None)
    found, obstacles = called_with(noted.summary(), True, ("height", "width"))
    return as_json(None if found is None else INPUTS.validate_python(found)), obstacles


IMAGE: Given = ("x", None, "float32", (8, 3, 64, 32))
LATER: Given = ("x", None, "float32", (4, 3, 32, 32))


def test_arguments_without_names_are_a_list_and_a_dict_stays_one() -> None:
    batch: list[Given] = [(0, "image", "float32", (8, 3, 64, 32)), (0, "label", "int32", (8,))]
    image = {"shape": ["batch", 3, "height", "width"]}
    label = {"shape": ["batch"], "dtype": "int32", "below": 2}
    assert described(batch) == ([{"image": image, "label": label}], [])
    assert described([(0, *IMAGE[1:]), (1, None, "int32", (8,))]) == ([image, label], [])


@pytest.mark.parametrize(
    ("other", "later", "obstacle"),
    [
        (("graphs", None, "list", None), None, "graphs (list)"),
        (("fast", None, "bool", None), None, "fast (bool)"),
        (("z", None, "complex64", (8, 2)), None, "z (complex64)"),
        (("z", None, "float32", (7,)), ("z", None, "float32", (7, 3)), "z (various)"),
        (("z", None, "float32", (7,)), ("z", None, "NoneType", None), "z (various)"),
        (
            ("z", None, "float32", (7, 3)),
            ("z", None, "float32", (9, 3)),
            "z (sizes unrelated to those of the first tensor)",
        ),
        (
            ("batch", "y", "float32", (8,)),
            ("batch", "y", "float32", (4,)),
            "batch['y'] (in a dict)",
        ),
    ],
)
def test_what_no_suite_can_describe_is_named(
    other: Given, later: Given | None, obstacle: str
) -> None:
    found, obstacles = described([IMAGE, other], [LATER, later or other])
    assert obstacles == [obstacle]
    assert found == {"x": {"shape": ["batch", 3, "height", "width"]}}, "the others are written"
