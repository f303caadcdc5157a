"""What an audit makes of a model's calls: its arguments, their shapes, and which module counts as the model."""

import signal
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from weakref import ref

import pytest
import torch
from torch import nn

from cudnn_sweep.workloads.auditing import begin as beginning
from cudnn_sweep.workloads.auditing.findings import (
    Argument,
    Making,
    OwnErrors,
    SourceLine,
)
from cudnn_sweep.workloads.auditing.models import (
    ModelCalls,
    Models,
    Outermost,
    _both,
    _first_shape,
    _given,
    _named,
    _plain,
    _unseen_in,
    _unwrapped,
)
from tests.workloads.auditing.test_watching import watched

IMAGE = torch.zeros(2, 3, 8, 6)
IDS = torch.zeros(2, 5, dtype=torch.int64)


@pytest.mark.parametrize(
    ("args", "kwargs", "given"),
    [
        ((IMAGE,), {}, ((0, None, "float32", (2, 3, 8, 6)),)),
        ((1.5, None), {"k": "x"}, ((0, None, "float", None), (1, None, "NoneType", None), ("k", None, "str", None))),
        (([IMAGE],), {}, ((0, None, "list", None),)),
        (({},), {}, ((0, None, "dict", None),)),
        (
            (),
            {"b": {"ids": IDS, "more": {"mask": IMAGE.bool()}, 3: 1}},
            (
                ("b", "ids", "int64", (2, 5)),
                ("b", "more.mask", "bool", (2, 3, 8, 6)),
                ("b", "3", "int", None),
            ),
        ),
    ],
)  # fmt: skip
def test_a_call_s_arguments_have_names_kinds_and_shapes(
    args: tuple[Any, ...], kwargs: dict[str, Any], given: Any
) -> None:
    assert _given(torch, args, kwargs) == given


@pytest.mark.parametrize(
    ("args", "shape"),
    [
        ((IMAGE,), (2, 3, 8, 6)),
        ((IDS, IMAGE), (2, 3, 8, 6)),
        ((IDS,), (2, 5)),
        ((torch.zeros(4), IMAGE), (2, 3, 8, 6)),
        ((torch.zeros(4), torch.zeros(4, 1)), (4, 1)),
        ((torch.zeros(4), IDS), (2, 5)),
        ((IMAGE.bool(),), None),
        ((torch.zeros(4), torch.tensor(1)), None),
        ((3, None), None),
        ((), None),
    ],
)
def test_a_models_input_is_its_first_batch_of_floats_or_else_of_integers(
    args: tuple[Any, ...], shape: tuple[int, ...] | None
) -> None:
    assert _first_shape(_given(torch, args, {})) == shape


def argument(kind: str, shape: Any) -> Argument:
    return Argument(training=True, name=0, key=None, kind=kind, shape=shape)


@pytest.mark.parametrize(
    ("old", "new", "both"),
    [
        (
            ("float32", ((2, "batch"), (3,))),
            ("float32", ((2, "batch"), (3,))),
            ((2, "batch"), (3,)),
        ),
        (("float32", ((2, "batch"), (3,))), ("float32", ((4, "batch"), (3,))), (("batch",), (3,))),
        (("float32", ((2, "batch"),)), ("float32", ((4, "width"),)), ((),)),
        (("float32", ()), ("float32", ()), ()),
        (("int", None), ("int", None), None),
        (("float32", ((2,),)), ("float32", ((2,), (3,))), "various"),
        (("float32", ((2,),)), ("float64", ((2,),)), "various"),
        (("int", None), ("str", None), "various"),
    ],
)
def test_an_argument_keeps_of_its_sizes_what_all_calls_have_in_common(
    old: tuple[str, Any], new: tuple[str, Any], both: Any
) -> None:
    kind, shape = ("various", None) if both == "various" else (old[0], both)
    assert _both(argument(*old), argument(*new)) == argument(kind, shape)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        *((value, (value,)) for value in (True, 3, "x", None, 1.5, [1, [2]], {"a": [1]})),
        ((1, 2), ([1, 2],)),
        (float("nan"), ()),
        (float("inf"), ()),
        ({1: 2}, ()),
        ([(1, 2)], ()),
        ({3}, ()),
        (object(), ()),
        (nn.ReLU, ()),
    ],
)
def test_a_suite_can_contain_what_json_gives_back(value: object, plain: tuple[Any, ...]) -> None:
    assert _plain(value) == plain


class Wrapper(nn.Module):
    def __init__(self, name: str, inner: nn.Module, **more: nn.Module) -> None:
        super().__init__()
        for key, part in {name: inner, **more}.items():
            setattr(self, key, part)


def test_a_wrapper_has_one_child_of_a_known_name() -> None:
    net = nn.Conv2d(3, 4, 3)
    for name in ("module", "_orig_mod"):
        assert _unwrapped(Wrapper(name, net)) is net
        assert _unwrapped(Wrapper("module", Wrapper(name, net))) is net
    for own in (net, Wrapper("body", net), Wrapper("module", net, head=nn.ReLU())):
        assert _unwrapped(own) is own


def test_only_compiled_parts_with_convolutions_hide_them() -> None:
    conv, plain = nn.Conv2d(3, 4, 3), nn.Linear(2, 2)
    assert _unseen_in(torch, nn.Sequential(conv, plain)) is None
    assert _unseen_in(torch, nn.Sequential(conv, Wrapper("_orig_mod", plain))) is None
    assert _unseen_in(torch, nn.Sequential(plain, Wrapper("_orig_mod", conv))) == "compiled"
    plain._compiled_call_impl = plain._call_impl  # as `compile` sets it
    assert _unseen_in(torch, nn.Sequential(conv, plain)) is None
    conv._compiled_call_impl = conv._call_impl
    assert _unseen_in(torch, nn.Sequential(conv, plain)) == "compiled"


def test_parameters_are_those_that_a_call_can_name() -> None:
    def function(a: int, /, b: int, *rest: int, c: int = 1, **more: int) -> None: ...

    assert [each.name for each in _named(function)] == ["b", "c"]
    assert _named(None) == [] and _named(dict) == []


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 1)

    def forward(self, images: Any, *, scale: Any = 1) -> None: ...


def test_calls_are_counted_by_shape_and_by_whether_they_recorded_gradients() -> None:
    calls = ModelCalls(Wrapper("module", Net()), None)
    loss = torch.tensor(2.0)

    def call(*args: Any, training: bool, convolutions: int = 1, output: object = None) -> None:
        calls.note(_given(torch, args, {}), convolutions, training, output)

    call(IMAGE, training=True, output={"loss": loss})
    call(IMAGE, training=True, output=loss)
    call(IMAGE[:1], training=True, convolutions=3, output=IMAGE)
    call(IMAGE, training=False, output={"loss": loss})
    call(torch.zeros(3), training=False, convolutions=0)
    found = calls.summary()
    assert (found.name, found.wrapped_in, found.elements) == ("Net", "Wrapper", 4)
    assert found.parameters == ("images", "scale") and found.file == __file__
    assert (found.calls, found.convolutions, found.without_shape) == (5, 6, 1)
    assert found.in_a_call == ((True, 1), (True, 3), (False, 1), (False, 0))
    assert {each.shape: (each.training, each.inference) for each in found.shapes} == {
        (2, 3, 8, 6): (2, 1),
        (1, 3, 8, 6): (1, 0),
    }
    assert not found.own_loss, "the last call with gradients returned none"
    sizes = {each.training: (each.kind, each.shape) for each in found.arguments}
    names = (("batch",), (3, "channels"), (8, "height"), (6, "width"))
    assert sizes == {True: ("float32", names), False: ("various", None)}
    call(IMAGE, training=True, output={"loss": loss})
    assert calls.summary().own_loss
    wide = ModelCalls(Net(), "compiled")
    wide.note(_given(torch, (torch.zeros(1, 2, 3, 4, 5, 6),), {}), 1, True, None)
    (six,) = wide.summary().arguments
    assert six.shape == ((1,), (2,), (3,), (4,), (5,), (6,)), "six sizes have no names"
    assert (wide.model.unseen, wide.model.wrapped_in) == ("compiled", None)


@pytest.mark.parametrize(
    ("steps", "calls", "ends"),
    [(None, 10**9, False), (5, 4, False), (5, 5, True), (5, 6, True), (0, 0, True)],
)
def test_a_script_ends_once_a_model_was_called_as_often_as_allowed(
    monkeypatch: pytest.MonkeyPatch, steps: int | None, calls: int, ends: bool
) -> None:
    sent: list[Any] = []
    main = SimpleNamespace(ident=77)
    monkeypatch.setattr(threading, "main_thread", lambda: main)
    monkeypatch.setattr(signal, "pthread_kill", lambda *given: sent.append(given))
    beginning._Audit("findings.json", steps)._end_after(calls)
    assert sent == ([(77, beginning.END)] if ends else [])


SCRIPT = """
import copy, torch
from threading import Thread
from torch import nn
class Net(nn.Module):
    def __init__(self, width, *, depth=1):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3)
    def forward(self, images):
        return self.conv(images)
def make(*args, **kwargs):
    return Net(*args, **kwargs)
images = torch.zeros(2, 3, 8, 8)
for net in [make(4) for _ in range(2)]:
    net(images)
make(5)(images)
other = Net(4)
other(images); other(images)
copy.copy(other)(images)
copied = copy.deepcopy(other)
copied(images)
class Quiet(Net):
    def forward(self, images):
        return images
Quiet(4)(images)
class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net(7)
    def forward(self, images):
        return self.net(images)
thread = Thread(target=Outer(), args=(images,))
thread.start()
thread.join()
gone = Net(8)
gone(images)
place = id(gone)
del gone
for _ in range(100):
    again = Net(9)
    if id(again) == place:
        again(images)
        break
"""


def test_equal_modules_of_one_line_are_one_model_and_copies_are_of_no_line(tmp_path: Path) -> None:
    models = watched(tmp_path, SCRIPT).models
    told = [
        (model.name, model.made and model.made.at.function, model.elements, model.calls)
        for model in models
    ]
    four, lines = 4 * 27 + 4, SCRIPT.splitlines()
    assert ("Net", "make", four, 2) in told and ("Net", "make", 5 * 27 + 5, 1) in told
    assert ("Net", "<module>", four, 2) in told
    assert ("Net", None, four, 2) in told, "both copies"
    assert ("Outer", "<module>", 7 * 27 + 7, 1) in told
    assert "Quiet" not in {name for name, *_ in told}, "it ran no convolution"
    assert not [each for each in told if each[2] == 7 * 27 + 7 and each[0] == "Net"]
    assert [model.convolutions for model in models] == [2, 2, 2, *[1] * (len(models) - 3)]
    (of_width_5,) = (model for model in models if model.elements == 5 * 28)
    assert of_width_5.made is not None
    assert lines[of_width_5.made.at.line - 1] == "    return Net(*args, **kwargs)"
    assert of_width_5.made.arguments == {"width": 5} and not of_width_5.made.others


def test_what_was_noted_of_a_module_that_is_gone_is_not_of_the_one_in_its_place() -> None:
    """Python gives a new object the id of one that is gone."""
    nobody: Any = None
    models = Models(OwnErrors(), nobody, nobody, nobody)
    models._torch = torch
    net, gone = Net(), Net()
    made = Making(at=SourceLine(file="a.py", line=1, function="f"), arguments={}, others=[])
    first = models._seen(net)
    assert models._seen(net) is first and first.calls is None
    models._made[id(net)] = ref(gone), made
    assert models._calls_of(net, first).model.made is None
    models._outermost[id(net)] = Outermost(ref(gone), None, first.calls)
    again = models._seen(net)
    assert again is not first and again.module() is net and again.calls is None
    models._made[id(net)] = ref(net), made
    assert models._calls_of(net, again).model.made == made
    compiled = Outermost(ref(net), "compiled")
    assert models._calls_of(net, compiled).model.unseen == "compiled"
    assert models._calls_of(net, Outermost(ref(net), None)).model.unseen == "compiled"
