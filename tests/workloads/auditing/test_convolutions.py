"""How calls of convolutions are told apart, and which are passed on without a look: in the tests' own process."""

from collections.abc import Callable
from threading import Thread
from typing import Any, ClassVar

import pytest
import torch

from cudnn_sweep.workloads.auditing import convolutions as watching
from cudnn_sweep.workloads.auditing.convolutions import ARGUMENTS, Convolutions
from cudnn_sweep.workloads.auditing.findings import OwnErrors

IMAGES, WEIGHT = torch.zeros(2, 4, 9, 9), torch.zeros(8, 4, 3, 3)


class Watched:
    """Functions as `watch` would put them in torch's place."""

    def __init__(self) -> None:
        self.own = OwnErrors()
        self.noted = Convolutions(self.own)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self.noted._watching(torch, getattr(torch, name), ARGUMENTS[name])

    def seen(self, *names: str) -> list[tuple[Any, ...]]:
        assert self.own.texts == set()
        return [tuple(getattr(each, name) for name in names) for each in self.noted.distinct()]


@pytest.fixture
def torchs() -> Watched:
    return Watched()


SIZES = ("input", "weight", "stride", "padding", "dilation", "groups", "output_padding")


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "sizes"),
    [
        ("conv2d", (), {}, ((1, 1), (0, 0), (1, 1), 1, (0, 0))),
        ("conv2d", (None, 2, 1, 1, 1), {}, ((2, 2), (1, 1), (1, 1), 1, (0, 0))),
        ("conv2d", (None, (1, 2)), {"dilation": [1, 2]}, ((1, 2), (0, 0), (1, 2), 1, (0, 0))),
        ("conv2d", (None, [2], [1]), {}, ((2, 2), (1, 1), (1, 1), 1, (0, 0))),
        ("conv2d", (), {"padding": "same"}, ((1, 1), "same", (1, 1), 1, (0, 0))),
        ("conv_transpose2d", (None, 2, 0, 1), {}, ((2, 2), (0, 0), (1, 1), 1, (1, 1))),
        (
            "conv_transpose2d",
            (),
            {"groups": 2, "dilation": 2},
            ((1, 1), (0, 0), (2, 2), 2, (0, 0)),
        ),
    ],
)
def test_sizes_are_one_for_each_dimension_however_they_are_given(
    torchs: Watched, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], sizes: Any
) -> None:
    weight = WEIGHT if name == "conv2d" else torch.zeros(4, 3, 3, 3)
    call = getattr(torchs, name)
    for _ in range(2):
        found = call(IMAGES, weight, *args, **kwargs)
    assert torch.equal(found, getattr(torch, name)(IMAGES, weight, *args, **kwargs))
    assert torchs.seen(*SIZES, "calls") == [(tuple(IMAGES.shape), tuple(weight.shape), *sizes, 2)]


def test_alike_calls_are_one_plan_and_each_difference_is_a_new_one(torchs: Watched) -> None:
    call = torchs.conv2d
    last = IMAGES.to(memory_format=torch.channels_last)
    call(IMAGES, WEIGHT)
    call(IMAGES, weight=WEIGHT)
    call(input=IMAGES, weight=WEIGHT, stride=(1, 1))
    call(IMAGES[0], WEIGHT)
    call(IMAGES[:1], WEIGHT)
    call(last, WEIGHT)
    call(IMAGES.double(), WEIGHT.double())
    told = torchs.seen("input", "memory_format", "dtype", "calls", "arrived_at")
    assert told == [
        ((2, 4, 9, 9), "contiguous", "float32", 3, 1),
        ((1, 4, 9, 9), "contiguous", "float32", 2, 4),
        ((2, 4, 9, 9), "channels_last", "float32", 1, 6),
        ((2, 4, 9, 9), "contiguous", "float64", 1, 7),
    ]
    assert (torchs.noted.calls(), torchs.noted.not_told_apart) == (7, 0)


def test_flags_and_autocast_are_part_of_a_plan_and_benchmark_is_counted(
    torchs: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = torchs.conv2d
    for benchmark in (False, True, True):
        monkeypatch.setattr(torch.backends.cudnn, "benchmark", benchmark)
        call(IMAGES, WEIGHT)
    with torch.autocast("cpu", torch.bfloat16):
        call(IMAGES[:1], WEIGHT)
        call(IMAGES.double(), WEIGHT.double())
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    call(IMAGES, WEIGHT)
    names = ("dtype", "deterministic", "benchmark_at_first", "autocast_at_first")
    assert torchs.seen(*names, "calls", "calls_with_benchmark") == [
        ("float32", False, False, False, 3, 2),
        ("bfloat16", False, True, True, 1, 1),
        ("float64", False, True, False, 1, 1),
        ("float32", True, True, False, 1, 1),
    ]


def test_threads_count_their_own_calls(torchs: Watched) -> None:
    call = torchs.conv2d
    call(IMAGES, WEIGHT)
    thread = Thread(target=lambda: [call(IMAGES, WEIGHT) for _ in range(3)])
    thread.start()
    thread.join()
    assert sorted(torchs.noted.called.values()) == [1, 3]
    assert torchs.seen("calls", "arrived_at") == [(4, 1)]


def test_an_error_is_torchs_own_and_no_call(torchs: Watched) -> None:
    call = torchs.conv2d
    for wrong in ((IMAGES,), (), (IMAGES, None), (3, WEIGHT), (IMAGES, WEIGHT, None, [[1]])):
        with pytest.raises(Exception) as found:  # each its own
            call(*wrong)
        with pytest.raises(type(found.value)):
            torch.conv2d(*wrong)
    with pytest.raises(RuntimeError):
        call(IMAGES[:, :3], WEIGHT)
    assert (torchs.noted.calls(), torchs.seen("calls")) == (0, [])


def test_calls_on_meta_and_beyond_the_most_shapes_are_counted_but_not_told_apart(
    torchs: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = torchs.conv2d
    monkeypatch.setattr(watching, "MOST_SHAPES", 2)
    for size in (5, 6, 7, 8, 6):
        call(IMAGES[..., :size], WEIGHT)
    assert [shape[-1] for (shape,) in torchs.seen("input")] == [5, 6]
    assert (torchs.noted.calls(), torchs.noted.not_told_apart) == (5, 2)


def test_a_tensor_type_with_a_function_of_its_own_is_asked_first(torchs: Watched) -> None:
    class Mine(torch.Tensor):
        asked: ClassVar[list[str]] = []

        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            cls.asked.append(func.__name__)
            return "mine"

    call = torchs.conv2d
    assert call(IMAGES.as_subclass(Mine), WEIGHT) == "mine"
    assert call(IMAGES, WEIGHT.as_subclass(Mine)) == "mine"
    assert Mine.asked == ["conv2d", "conv2d"] and torchs.seen("calls") == []


def test_a_trace_and_vmap_run_as_ever_and_are_not_noted(torchs: Watched) -> None:
    call = torchs.conv2d
    found = torch.vmap(lambda images: call(images, WEIGHT))(torch.ones(3, 2, 4, 9, 9))
    assert found.shape == (3, 2, 8, 7, 7) and torchs.seen("calls") == []
    assert call.__qualname__ == "conv2d" and call.__module__ == "torch"
