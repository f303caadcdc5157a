import pytest

from cudnn_sweep.cluster.local.local_ray import probe_ray

pytestmark = pytest.mark.measuring


def test_a_task_is_run_and_ray_is_gone() -> None:
    import ray

    assert probe_ray() > 0
    assert not ray.is_initialized()
