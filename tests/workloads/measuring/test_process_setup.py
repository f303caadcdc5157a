"""What a fresh process finds in its compute cache, and counts there."""

import os
from pathlib import Path

import pytest

from cudnn_sweep.workloads.cells.measurement import Measurement
from cudnn_sweep.workloads.measuring.process_setup import (
    COMPILED,
    count_compiled,
    use_compute_cache,
)


def fill(folder: Path) -> None:
    for name in ("a1/kernel", "a2/other", "index", f"{COMPILED}/inductor/code.py", "a1/index"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_only_kernels_of_cuda_are_counted(tmp_path: Path) -> None:
    assert count_compiled(tmp_path) == 0
    fill(tmp_path)
    assert count_compiled(tmp_path) == 2


def test_a_cache_is_warm_if_an_earlier_trial_had_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CUDA_CACHE_PATH", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(name, "the user's")
    monkeypatch.setenv("CUDA_CACHE_DISABLE", "1")
    folder, first, later = tmp_path / "cell" / "config", Measurement(), Measurement()
    use_compute_cache(folder, first)
    assert (first.compute_cache, first.compute_cache_entries_before) == ("empty", 0)
    fill(folder)
    use_compute_cache(folder, later)
    assert (later.compute_cache, later.compute_cache_entries_before) == ("warm", 2)
    assert os.environ["CUDA_CACHE_PATH"] == str(folder)
    assert os.environ["TRITON_CACHE_DIR"] == str(folder / COMPILED / "triton")
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(folder / COMPILED / "inductor")
    assert "CUDA_CACHE_DISABLE" not in os.environ
