"""Computes the fingerprints of a step's results, and their errors compared with float64."""

from dataclasses import replace
from hashlib import blake2b
from math import sqrt

import torch
from torch.backends import cudnn

from cudnn_sweep.workloads.hashes import content_hash
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.records.measured import Computed, ComputedTensor
from cudnn_sweep.workloads.workload import Context, Workload

CHUNK = 2**24  # number of elements that are hashed at a time
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

# Multipliers of a hash: 2^64 divided by the golden ratio, and a constant of MurmurHash3.
PLACE, MIX = -7046029254386353131, -49064778989728563

# Largest number of FLOPs for which a step is repeated in float64.
REFERENCE_FLOPS = {"cuda": 4 * 10**12, "cpu": 10**10}

# Tensors below this share of the typical size consist only of rounding errors.
VANISHING = 1e-9

Tensors = dict[str, torch.Tensor]


def compute(
    workload: Workload, context: Context, shape: Shape, seed: int, *, reference: bool, flops: int
) -> tuple[Computed, bool]:
    """Run a new step. Return fingerprints and errors of its results, and whether all are finite.

    Errors are None if `reference` is false or if `flops` exceeds REFERENCE_FLOPS.
    """
    torch.manual_seed(seed)
    step = workload.step(context)
    if step.examine is None:
        return Computed(), True
    inputs = step.prepare(shape)
    results = step.examine(inputs)
    prints = {name: fingerprint(tensor) for name, tensor in results.items()}
    exact, note = _reference(workload, context, shape, seed, flops) if reference else ({}, None)
    sizes = _typical_sizes(exact)
    errors = {name: _errors(results[name], exact[name], sizes[_kind(name)]) for name in exact}
    tensors = [
        ComputedTensor(
            tensor=name,
            elements=tensor.numel(),
            fingerprint=prints[name],
            relative_l2_error=errors[name][0] if name in errors else None,
            relative_max_error=errors[name][1] if name in errors else None,
        )
        for name, tensor in results.items()
    ]
    is_finite = all(bool(tensor.isfinite().all()) for tensor in results.values())
    results, exact = {}, {}  # the next step may reuse their memory
    again = {name: fingerprint(tensor) for name, tensor in step.examine(inputs).items()}
    computed = Computed(
        computed=tensors,
        fingerprint=content_hash(prints),
        bitwise_repeatable=again == prints,
        relative_l2_error=max((l2 for l2, _ in errors.values()), default=None),
        relative_max_error=max((largest for _, largest in errors.values()), default=None),
        reference_note=note,
    )
    return computed, is_finite


def fingerprint(tensor: torch.Tensor) -> str:
    """Return a hash of a tensor's bits, which does not depend on the layout of the tensor."""
    bits = tensor.detach().contiguous().view(INTEGERS[tensor.element_size()]).flatten()
    if not bits.is_cuda:
        return blake2b(bits.numpy().data, digest_size=8).hexdigest()
    return _hash_on_device(bits)


def _hash_on_device(bits: torch.Tensor) -> str:
    total = 0
    for start in range(0, bits.numel(), CHUNK):
        values = bits[start : start + CHUNK].to(torch.int64, copy=True)
        places = torch.arange(start, start + values.numel(), device=bits.device)
        values += places * PLACE
        values *= MIX
        values ^= values >> 29
        values *= PLACE
        total += int(values.sum())
    return f"{total % 2**64:016x}"


def _reference(
    workload: Workload, context: Context, shape: Shape, seed: int, flops: int
) -> tuple[Tensors, str | None]:
    """Run a step in float64 without cuDNN. Return its results, or the reason if it cannot run."""
    most = REFERENCE_FLOPS[context.device.type]
    if flops > most:
        return {}, f"not compared with float64, because {flops:.2g} FLOPs exceed {most:.0g}"
    enabled = cudnn.enabled
    try:
        cudnn.enabled = False
        torch.manual_seed(seed)
        step = workload.step(replace(context, reference=True))
        assert step.examine is not None
        return step.examine(step.prepare(shape)), None
    except (RuntimeError, NotImplementedError) as error:  # out of memory, or no float64 version
        return {}, f"{type(error).__name__}: {error}".splitlines()[0]
    finally:
        cudnn.enabled = enabled


def _kind(name: str) -> str:
    return "gradient" if name.endswith(".grad") else "value"


def _typical_sizes(exact: Tensors) -> dict[str, float]:
    sizes: dict[str, float] = {}
    for name, tensor in exact.items():
        kind = _kind(name)
        sizes[kind] = max(sizes.get(kind, 0.0), _root_mean_square(tensor.detach()))
    return sizes


def _errors(result: torch.Tensor, exact: torch.Tensor, typical: float) -> tuple[float, float]:
    """Return the L2 and maximum error, relative to `exact`, or to `typical` if that is almost 0."""
    exact = exact.detach()
    difference = result.detach().to(torch.float64) - exact
    if not difference.any():
        return 0.0, 0.0
    size, largest = _root_mean_square(exact), float(exact.abs().max())
    if size < VANISHING * typical:
        size = largest = typical
    if size == 0:
        return float("inf"), float("inf")
    return _root_mean_square(difference) / size, float(difference.abs().max()) / largest


def _root_mean_square(tensor: torch.Tensor) -> float:
    return float(tensor.norm()) / sqrt(tensor.numel())
