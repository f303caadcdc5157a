"""Which numbers a suite may measure with, and what a made-up monitor reads."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.cells.suite import CellAxes, RankCount, SuiteSpec, WithoutGpu
from cudnn_sweep.workloads.hardware.monitor import FakeMonitor


@pytest.mark.parametrize(
    ("key", "least"),
    [
        ("cold_shapes", 1),
        ("open_cold_shapes", 1),
        ("turn_cpus", 1),
        ("open_steps", 1),
        ("reference_replicates", 0),
        ("logged_replicates", 0),
        ("host_memory_limit_mib", 1),
        ("steady_error", 0),
    ],
)
def test_a_number_is_at_least_one_or_none_of_it_is_measured(key: str, least: int) -> None:
    assert getattr(MeasureSpec.model_validate({key: least}), key) == least
    with pytest.raises(ValidationError):
        MeasureSpec.model_validate({key: least - 1})


def test_an_editor_and_a_launch_allow_the_same_numbers_of_ranks() -> None:
    ranks: TypeAdapter[str] = TypeAdapter(RankCount)
    schema = ranks.json_schema()
    least, most = schema["minimum"], schema["maximum"]
    assert [ranks.validate_python(number) for number in (least, most)] == [
        "1_rank",
        f"{most}_ranks",
    ]
    for number in (least - 1, most + 1):
        with pytest.raises(ValidationError, match=f"from {least} to {most}"):
            ranks.validate_python(number)


def test_a_process_has_some_time() -> None:
    with pytest.raises(ValidationError):
        MeasureSpec(timeout_s=0)


def test_one_replicate_is_compared_with_float64_and_logged_unless_asked_otherwise() -> None:
    usual = MeasureSpec()
    assert (usual.reference_replicates, usual.logged_replicates, usual.turn_cpus) == (1, 1, 1)


def suite(**without_gpu: Any) -> SuiteSpec:
    cells = [CellAxes(workload="noop")]
    return SuiteSpec(cells=cells, replicates=7, without_gpu=WithoutGpu(**without_gpu))


def test_a_suite_has_other_blocks_without_a_gpu_if_it_says_so() -> None:
    assert suite(replicates=2).on("cuda").replicates == 7
    assert suite(replicates=2).on("cpu").replicates == 2
    assert suite().on("cpu").replicates == 7
    of_default = SuiteSpec(cells=[CellAxes(workload="noop")])
    assert of_default.on("cuda").replicates is None
    assert of_default.on("cpu").replicates is not None
    assert of_default.with_blocks(3).replicates == 3
    assert suite().with_blocks(3).replicates == 7


def test_a_slice_of_a_gpu_has_neither_clock_nor_energy() -> None:
    whole, part = FakeMonitor("fake_calm"), FakeMonitor("fake_slice")
    assert (whole.max_sm_clock_mhz, part.max_sm_clock_mhz) == (1980, None)
    assert part.energy_mj() is None
    first, second = whole.energy_mj(), whole.energy_mj()
    assert first is not None and second is not None
    assert second == 2 * first
    assert FakeMonitor("fake_shared").read().other_processes == 1
