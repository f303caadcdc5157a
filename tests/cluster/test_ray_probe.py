import pytest

from cudnn_sweep.cluster.errors import LocalRayError
from cudnn_sweep.cluster.local_ray import local_ray
from cudnn_sweep.cluster.ray_probe import probe_ray


def test_a_task_is_run_and_ray_is_gone() -> None:
    import ray

    assert probe_ray() > 0
    assert not ray.is_initialized()


def test_another_ray_of_this_process_is_left_alone() -> None:
    with local_ray(slots=1), pytest.raises(LocalRayError, match="connected to a Ray already"):
        probe_ray()
