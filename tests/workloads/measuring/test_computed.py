"""Fingerprints, and errors against float64, of every bundled workload on the CPU."""

import math
from dataclasses import replace
from functools import cache, partial
from hashlib import blake2b
from itertools import product
from typing import Any

import pytest
import torch

from cudnn_sweep.workloads.find_workload import bundled_workloads
from cudnn_sweep.workloads.measuring.computed import (
    REFERENCE_FLOPS,
    _errors,
    _hash_on_device,
    _reference,
    compute,
    fingerprint,
)
from cudnn_sweep.workloads.measuring.device import Device
from cudnn_sweep.workloads.precision import PRECISIONS
from cudnn_sweep.workloads.problem import Shape, load_problems
from cudnn_sweep.workloads.records.measured import Computed
from cudnn_sweep.workloads.workload import Context, TimedStep, Workload, workload
from tests.workloads.made_up_cells import plain_context
from tests.workloads.made_up_models import ERRORS

PROBLEM = load_problems()["tutorials/rgb224"]
SMALL = (2, 3, 12, 12)

NOT_ON_A_CPU = {("lstm", "amp_fp16")}  # oneDNN refuses it, in a user's own code, too
SELECT = ("max_pool", "relu")  # they round nothing


def cases() -> list[tuple[str, str, str]]:
    return [
        (workload.name, direction, precision)
        for workload, precision in product(bundled_workloads().values(), PRECISIONS)
        for direction in workload.directions
        if (workload.name, precision) not in NOT_ON_A_CPU
    ]


@cache
def small(name: str) -> Shape:
    """A small input, in all its sizes where the workload takes that, else in its batch alone."""
    workload = bundled_workloads()[name]
    if workload.input_shape is None:
        return SMALL
    _, channels, *space = workload.input_shape
    if len(space) == 1:  # sequences: batch, length, features
        return (4, 8, *space)
    smallest = (4, channels, *(min(size, 16) for size in space))
    step = workload.step(context_of(workload, workload.directions[0], "fp32"))
    try:
        step.run(step.prepare(smallest))
    except RuntimeError:
        return (4, channels, *space)
    return smallest


def context_of(workload: Workload, direction: str, precision: str) -> Context:
    problem = None if workload.input_shape else PROBLEM
    return plain_context(direction, problem, precision=precision)


def computed(workload: Workload, direction: str, precision: str, *, seed: int = 1) -> Computed:
    context = context_of(workload, direction, precision)
    return compute(workload, context, small(workload.name), seed, reference=True, flops=0)[0]


def test_results_that_the_next_run_overwrites_are_examined_before_it() -> None:
    """As those of `torch.compile(mode="reduce-overhead")`, each of whose runs writes to the same memory."""
    buffer, values = torch.zeros(2), iter([1.0, math.nan])

    def overwrite(inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"output": buffer.fill_(next(values))}

    def build(context: Context) -> TimedStep:
        examine = (lambda inputs: {"output": inputs + 2}) if context.reference else overwrite
        return TimedStep(
            prepare=partial(torch.zeros, dtype=torch.float64), run=torch.relu, examine=examine
        )

    overwritten = replace(bundled_workloads()["relu"], build=build)
    context = plain_context("forward", PROBLEM)
    seen, is_finite = compute(overwritten, context, (2,), 1, reference=True, flops=0)
    assert is_finite and not seen.bitwise_repeatable
    assert seen.computed and seen.computed[0].relative_l2_error == 0.5


@pytest.mark.slow
@pytest.mark.parametrize(("name", "direction", "precision"), cases())
def test_what_every_workload_computes_is_repeatable_and_near_float64(
    name: str, direction: str, precision: str
) -> None:
    workload = bundled_workloads()[name]
    try:
        found = computed(workload, direction, precision)
    except RuntimeError as error:
        if "could not create a primitive" not in str(error):
            raise
        pytest.skip(f"oneDNN has no {name} in {precision} on this CPU")
    if found.computed is None:
        step = workload.step(context_of(workload, direction, precision))
        assert step.examine is None, "it names nothing to compare"
        return
    kind = PRECISIONS[precision].autocast or PRECISIONS[precision].dtype
    assert found.bitwise_repeatable
    assert found.reference_note is None
    assert found.relative_l2_error is not None
    assert found.relative_l2_error < ERRORS[kind]
    assert found.relative_l2_error > 0 or name in SELECT
    assert found.fingerprint == computed(workload, direction, precision).fingerprint
    assert found.fingerprint != computed(workload, direction, precision, seed=2).fingerprint


def test_gradients_have_names_and_all_of_them_are_compared() -> None:
    found = computed(bundled_workloads()["conv"], "forward_backward", "fp32")
    assert found.computed is not None
    names = [tensor.tensor for tensor in found.computed]
    assert names == ["output", "input_gradient", "weight_gradient", "bias_gradient"]
    assert all(tensor.relative_max_error is not None for tensor in found.computed)


def test_reference_that_would_take_too_long_is_left_out_with_a_reason() -> None:
    conv = bundled_workloads()["conv"]
    context = plain_context("forward", PROBLEM)
    found, _ = compute(conv, context, SMALL, 1, reference=True, flops=10**15)
    assert found.fingerprint is not None
    assert found.relative_l2_error is None
    assert found.reference_note is not None and "1e+15" in found.reference_note
    just = compute(conv, context, SMALL, 1, reference=True, flops=REFERENCE_FLOPS["cpu"])[0]
    assert just.reference_note is None and just.relative_l2_error is not None


def test_gradient_that_is_zero_but_for_rounding_is_held_against_the_others() -> None:
    @workload(directions=("training",), varies=("batch",), input_shape=(2, 3))
    def bias_before_normalisation(context: Context) -> TimedStep:
        def examine(inputs: torch.Tensor) -> dict[str, torch.Tensor]:
            rounding = 1e-17 if context.reference else 1e-9
            return {
                "loss": torch.tensor(7.0, dtype=context.dtype),
                "weight.grad": torch.full((4,), 1e-3, dtype=torch.float64),
                "bias.grad": torch.full((4,), rounding, dtype=torch.float64),
            }

        return TimedStep(prepare=context.random, run=examine, examine=examine)

    context = plain_context("training")
    found, _ = compute(bias_before_normalisation, context, (2, 3), 1, reference=True, flops=0)
    assert found.relative_l2_error == pytest.approx(1e-6)
    assert found.relative_max_error == pytest.approx(1e-6)


def test_fingerprint_depends_on_bits_and_places_and_on_nothing_else() -> None:
    images = torch.randn(2, 3, 5, 7)
    same = fingerprint(images)
    assert fingerprint(images.contiguous(memory_format=torch.channels_last)) == same
    assert fingerprint(images.flip(0)) != same
    swapped = images.clone()
    swapped[0, 0, 0, 0], swapped[0, 0, 0, 1] = images[0, 0, 0, 1], images[0, 0, 0, 0]
    assert fingerprint(swapped) != same
    changed = images.clone()
    changed[1, 2, 4, 6] = torch.nextafter(changed[1, 2, 4, 6], torch.tensor(9.0))
    assert fingerprint(changed) != same
    assert fingerprint(torch.tensor([0.0])) != fingerprint(torch.tensor([-0.0]))
    bits = images.contiguous().numpy().tobytes()
    assert same == blake2b(bits, digest_size=8).hexdigest(), "anybody can tell it"
    assert len(same) == len(_hash_on_device(torch.zeros(1, dtype=torch.int32))) == 16, "64 bits"


def test_hash_on_a_device_depends_on_bits_and_places_and_leaves_them_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bits = torch.randn(1000, dtype=torch.float64).view(torch.int64)
    before = bits.clone()
    whole = _hash_on_device(bits)
    assert torch.equal(bits, before)
    assert _hash_on_device(bits.flip(0)) != whole
    bits[999] ^= 1
    assert _hash_on_device(bits) != whole
    monkeypatch.setattr("cudnn_sweep.workloads.measuring.computed.CHUNK", 64)
    assert _hash_on_device(before) == whole


@pytest.mark.parametrize(
    ("values", "dtype", "printed"),
    [
        ([1, 2, 3, 4, 5], torch.int64, "2afc73214f6f1aa7"),
        ([0], torch.int32, "0000000000000000"),
        ([-7, 9], torch.int16, "4dd113d79c8c4cd4"),
    ],
)
def test_a_devices_hash_is_the_one_that_stored_rows_have(
    values: list[int], dtype: torch.dtype, printed: str
) -> None:
    assert _hash_on_device(torch.tensor(values, dtype=dtype)) == printed


@pytest.mark.parametrize(
    ("device", "flops", "note"),
    [
        ("cpu", 10**10, "RuntimeError: out of memory"),
        ("cpu", 10**10 + 1, "not compared with float64, because 1e+10 FLOPs exceed 1e+10"),
        ("cuda", 4 * 10**12, "RuntimeError: out of memory"),
        ("cuda", 4 * 10**12 + 1, "not compared with float64, because 4e+12 FLOPs exceed 4e+12"),
    ],
)
def test_a_reference_has_a_limit_on_each_device_and_an_error_is_its_note(
    device: str, flops: int, note: str
) -> None:
    class Failing:
        def step(self, context: Context) -> TimedStep:
            assert context.reference and not torch.backends.cudnn.enabled
            raise RuntimeError("out of memory\nin many lines")

    context = plain_context("forward", device=Device(torch=torch.device(device)))
    workload: Any = Failing()
    assert _reference(workload, context, SMALL, 1, flops) == ({}, note)
    assert torch.backends.cudnn.enabled


@pytest.mark.parametrize(
    ("result", "exact", "typical", "errors"),
    [
        ([1.0, 2.0], [1.0, 2.0], 1.0, (0.0, 0.0)),
        ([3.0, 4.0], [3.0, 5.0], 1.0, (1 / 34**0.5, 1 / 5)),
        ([0.0, 0.0], [3.0, -4.0], 1.0, (1.0, 1.0)),
        ([1e-6, 0.0], [0.0, 0.0], 2.0, (1e-6 / 2**0.5 / 2, 1e-6 / 2)),
        ([1.0, 0.0], [0.0, 0.0], 0.0, (math.inf, math.inf)),
        ([2e-9, 0.0], [1e-9, 0.0], 1.0, (1e-9 / 2**0.5, 1e-9)),
        ([4e-9, 0.0], [2e-9, 0.0], 1.0, (1.0, 1.0)),
    ],
)
def test_errors_are_shares_of_the_results_own_size_or_of_the_typical_one(
    result: list[float], exact: list[float], typical: float, errors: tuple[float, float]
) -> None:
    found = _errors(torch.tensor(result).double(), torch.tensor(exact).double(), typical)
    assert found == pytest.approx(errors, rel=1e-5)


@pytest.mark.parametrize(
    "kind", ["uint8", "bool", "int16", "bfloat16", "int32", "float32", "float64"]
)
def test_numbers_of_any_size_are_hashed_by_their_bytes(kind: str) -> None:
    values = torch.tensor([1, 0, 1, 1]).to(getattr(torch, kind))
    assert (
        fingerprint(values)
        == blake2b(values.view(torch.uint8).numpy().tobytes(), digest_size=8).hexdigest()
    )
