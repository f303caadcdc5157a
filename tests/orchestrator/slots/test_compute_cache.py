"""Which slots share a folder of compiled kernels."""

from dataclasses import replace
from pathlib import Path
from typing import cast

from cudnn_sweep.orchestrator.planning.plan import Trial
from cudnn_sweep.orchestrator.planning.session import session_of
from cudnn_sweep.orchestrator.process.client import ForkServer
from cudnn_sweep.orchestrator.slots.slot import OWN, DeviceServer, ForkedSlot
from cudnn_sweep.workloads.hardware.environment import Environment, capture_environment
from tests.makers import MakePlan


def test_gpus_of_one_model_and_driver_share_it(plan_of: MakePlan, tmp_path: Path) -> None:
    session = session_of(plan_of("noop"), "shared", tmp_path)
    gpu = replace(capture_environment(), device="cuda", gpu="A", gpu_uuid="0", driver="580.1")

    def cache_of(trial: Trial, there: Environment) -> str | None:
        server = DeviceServer(
            gpu_uuids=(), server=cast("ForkServer", None), environment=there, cpus=frozenset({0})
        )
        return ForkedSlot(session, there.gpu_uuid or "cpu", {OWN: server}).compute_cache(trial)

    off, on = session.plan.trials[:2]
    cache = cache_of(off, gpu)
    assert cache == cache_of(off, replace(gpu, gpu_uuid="1"))
    others = [replace(gpu, driver="590.1"), replace(gpu, gpu="B")]
    assert cache not in [cache_of(off, other) for other in others]
    assert cache != cache_of(on, gpu)
    assert cache_of(off, capture_environment()) is None
