"""What a summary says of GPUs that are slower than their peers of the same model, or faster."""

from collections.abc import Iterator
from itertools import groupby

from cudnn_sweep.analysis.answering.verdicts import GpuSpeed, gpu_speeds
from cudnn_sweep.analysis.storing.store import Store
from cudnn_sweep.analysis.words import given, percent

ADVICE = (
    "check its clocks, power limit, temperature and memory errors (nvidia-smi -q -i UUID); until it is "
    "repaired, exclude it with CUDA_VISIBLE_DEVICES, or exclude its node from the cluster"
)


def slow_gpu_lines(store: Store, sweep_id: str) -> Iterator[str]:
    """A line for each GPU that is off, one for each measure in which a model's GPUs are at odds."""
    speeds = gpu_speeds(store, sweep_id)
    off = [speed for speed in speeds if speed.finding in ("slow", "fast")]
    for (gpu, host, uuid), found in _grouped(off):
        measures = ", ".join(_by_how_much(each) for each in found)
        yield f"{uuid} on {host}: {measures} than its {found[0].peers} peers ({gpu}): {ADVICE}"
    yield from (_at_odds(each) for each in _differing(speeds))


def _by_how_much(speed: GpuSpeed) -> str:
    assert speed.ratio is not None
    return f"{speed.measure} {percent(abs(1 - speed.ratio), 1)} {speed.finding}er"


def _grouped(speeds: list[GpuSpeed]) -> Iterator[tuple[tuple[str, str, str], list[GpuSpeed]]]:
    def gpu(speed: GpuSpeed) -> tuple[str, str, str]:
        return speed.gpu, speed.host, speed.gpu_uuid

    for key, found in groupby(sorted(speeds, key=gpu), key=gpu):
        yield key, list(found)


def _differing(speeds: list[GpuSpeed]) -> Iterator[list[GpuSpeed]]:
    def group(speed: GpuSpeed) -> tuple[str, str]:
        return speed.gpu, speed.measure

    for _, found in groupby(sorted(speeds, key=group), key=group):
        alike = list(found)
        if any(speed.finding == "differs" for speed in alike):
            yield sorted(alike, key=lambda speed: speed.speed)


def _at_odds(speeds: list[GpuSpeed]) -> str:
    slowest, fastest = speeds[0], speeds[-1]
    return (
        f"The {len(speeds)} {slowest.gpu} differ by {percent(1 - slowest.speed / fastest.speed, 1)} in "
        f"{slowest.measure}, from {_told(slowest)} to {_told(fastest)}; with so few GPUs it is unclear "
        f"which one is at fault: compare them with others, or for each of them {ADVICE}"
    )


def _told(speed: GpuSpeed) -> str:
    return f"{given(speed.speed)} {speed.speed_unit} ({speed.gpu_uuid} on {speed.host})"
