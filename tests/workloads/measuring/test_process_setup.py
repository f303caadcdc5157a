"""What a fresh process finds in its compute cache, and counts there."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.measurement import Measurement, MeasureSpec, TrialRequest
from cudnn_sweep.workloads.measuring import process_setup
from cudnn_sweep.workloads.measuring.process_setup import (
    COMPILED,
    apply_request,
    context_of,
    count_compiled,
    use_compute_cache,
)
from tests.workloads.made_up_cells import CPU, one_cell


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


@pytest.mark.parametrize(
    ("rank", "of", "cpus", "threads"),
    [(None, 1, 7, 7), (0, 2, 7, 3), (1, 2, 7, 3), (3, 4, 2, 1)],
)
@pytest.mark.parametrize(
    ("execution", "disabled", "cache"),
    [(None, False, "empty"), (None, True, "disabled"), ("compile", False, "empty")],
)
def test_a_process_is_set_up_before_its_first_call(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rank: int | None,
    of: int,
    cpus: int,
    threads: int,
    execution: Any,
    disabled: bool,
    cache: str,
) -> None:
    done: dict[str, Any] = {}
    precision = SimpleNamespace(apply=lambda: done.update(applied=True))
    monkeypatch.setattr(process_setup, "usable_cpus", lambda: cpus)
    monkeypatch.setattr(process_setup, "apply_config", lambda config: config)
    monkeypatch.setattr(process_setup, "find_precision", lambda _: precision)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: done.update(threads=count))
    monkeypatch.setattr(torch, "manual_seed", lambda seed: done.update(seed=seed))
    for name in ("CUDA_CACHE_PATH", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TMPDIR"):
        monkeypatch.setenv(name, "the user's")
    config = Config(execution=execution, compute_cache_disabled=disabled)
    ranks: Any = None if rank is None else SimpleNamespace(rank=rank, of=of)
    for folder in (str(tmp_path / "cache"), None):
        measured = Measurement()
        request = TrialRequest(
            cell=one_cell("noop"),
            config=config,
            measure=MeasureSpec(),
            seed=40,
            compute_cache=folder,
        )
        apply_request(request, measured, ranks)
        assert done == {"threads": threads, "seed": 40 + (rank or 0), "applied": True}
        assert measured.config == config
        assert measured.compute_cache == (cache if folder else None)
    of_compilers = str(tmp_path / "cache" / COMPILED)
    assert os.environ["TMPDIR"] == (of_compilers if execution else "the user's")


def test_a_context_has_the_cells_fields_under_the_config() -> None:
    cell = one_cell("conv", layout="channels_last", state="misaligned")
    plain = context_of(cell, CPU)
    assert (plain.layout, plain.precision.name, plain.execution) == (
        "channels_last",
        "fp32",
        "eager",
    )
    assert plain.direction == "forward_backward" and plain.problem == cell.problem
    assert plain.state is not None and plain.state.name == "misaligned"
    config = Config(layout="weights", precision="bf16", execution="compile")
    under = context_of(cell, CPU, config)
    assert (under.layout, under.precision.name, under.execution) == ("weights", "bf16", "compile")
