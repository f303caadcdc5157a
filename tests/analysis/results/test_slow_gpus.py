"""slow_gpus: a GPU that is off is told from its peers; where as many are off as not, nobody can tell."""

import pytest

from cudnn_sweep.analysis.store.schema import RunRecord
from tests.analysis.conftest import Ask, make_record


def on_gpu(number: int, gbps: float, trials: int = 3, **changes: object) -> list[RunRecord]:
    """Trials on one GPU, whose copies are a little apart."""
    there = {"gpu_uuid": f"GPU-{number}", "slot": f"GPU-{number}", "host": f"node-{number}"}
    return [
        make_record(
            trial_id=f"trial-{number}-{trial}-{changes.get('precision')}",
            calibration_copy_gbps=gbps + trial - 1,
            **{"calibration_matmul_tflops": None, **there, **changes},
        )
        for trial in range(trials)
    ]


def every(gbps: list[float]) -> list[RunRecord]:
    return [row for gpu in enumerate(gbps) for row in on_gpu(*gpu)]


def findings_of(rows: list[dict[str, object]]) -> dict[object, object]:
    return {row["gpu_uuid"]: row["finding"] for row in rows}


@pytest.mark.parametrize(
    ("gbps", "findings"),
    [
        ([4000], ["alone"]),
        ([4000, 3850], ["alike", "alike"]),
        ([4000, 3700], ["differs", "differs"]),
        ([4000, 3990, 3700], ["alike", "alike", "slow"]),
        ([4000, 3990, 4300], ["alike", "alike", "fast"]),
        ([4000, 3700, 3400], ["differs", "differs", "differs"]),
        ([4000, 4000, 3700, 3700], ["differs", "differs", "differs", "differs"]),
        ([4000, 3950, 4010, 2000], ["alike", "alike", "alike", "slow"]),
        ([4000, 4000, 4000, 3700, 3600], ["alike", "alike", "alike", "slow", "slow"]),
        ([4000, 3900, 3780], ["alike", "alike", "alike"]),  # the ends differ, neither from most
    ],
)
def test_a_gpu_is_off_where_it_differs_from_most_of_its_peers(
    ask: Ask, gbps: list[float], findings: list[str]
) -> None:
    rows = ask("slow_gpus", every(gbps))
    assert findings_of(rows) == {f"GPU-{number}": each for number, each in enumerate(findings)}
    for row in rows:
        assert (row["measure"], row["trials"], row["speed_unit"]) == ("copy", 3, "GB/s")
        assert row["peers"] == len(gbps) - 1


def test_matrix_products_are_compared_in_each_precision(ask: Ask) -> None:
    speeds = {"bf16": [700.0, 630.0, 700.0], "fp32": [50.0, 50.0, 50.0]}
    trials = [
        row
        for precision, tflops in speeds.items()
        for number, speed in enumerate(tflops)
        for row in on_gpu(number, 4000, precision=precision, calibration_matmul_tflops=speed)
    ]
    rows = ask("slow_gpus", trials)
    assert {(row["measure"], row["trials"]) for row in rows} == {
        ("copy", 6),
        ("matmul bf16", 3),
        ("matmul fp32", 3),
    }
    off = [(row["gpu_uuid"], row["measure"]) for row in rows if row["finding"] != "alike"]
    assert off == [("GPU-1", "matmul bf16")]


def test_other_models_shared_gpus_and_too_few_trials_are_no_peers(ask: Ask) -> None:
    trials = every([4000, 4000])
    trials += on_gpu(2, 2000, gpu="NVIDIA A100-SXM4-80GB")
    trials += on_gpu(3, 2000, warnings=["shared_gpu"])
    trials += on_gpu(4, 2000, trials=2)
    trials += on_gpu(5, 2000, device="cpu")
    rows = ask("slow_gpus", trials)
    assert findings_of(rows) == {"GPU-0": "alike", "GPU-1": "alike", "GPU-2": "alone"}
    (slow,) = (row for row in ask("slow_gpus", [], least_trials=2) if row["finding"] == "slow")
    assert slow["gpu_uuid"] == "GPU-4"
