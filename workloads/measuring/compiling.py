"""Counts and times the compilations of torch.compile in a trial, and finds graph breaks."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from errno import ENOSPC
from time import perf_counter
from typing import Any

import torch

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.hardware.environment import installed_version
from cudnn_sweep.workloads.records.measured import Ran

ENDING_S = 1.0  # longest wait for the end of each thread of the compiler
RECOMPILED = "Detected recompile"  # beginning of torch's error message


class CompileWatch:
    def __init__(self, execution: str) -> None:
        """Import the compiler, which takes seconds, and count its compilations from now on."""
        import torch._inductor.compile_fx  # the first compilation would import it
        from torch._dynamo.callback import callback_handler
        from torch._dynamo.utils import counters

        torch.hub.tqdm.monitor_interval = 0  # type: ignore[attr-defined]  # prevents a thread
        if hasattr(torch._inductor.config, "quiesce_async_compile_pool"):
            torch._inductor.config.quiesce_async_compile_pool = False  # prevents a timer thread
        if hasattr(torch._inductor.config, "cpp_cache_precompile_headers"):
            torch._inductor.config.cpp_cache_precompile_headers = False  # saves 149 MB on disk
        torch._dynamo.config.fail_on_recompile_limit_hit = True
        counters.clear()
        self._execution, self._counters = execution, counters
        self._seconds, self._compiles, self._began = 0.0, 0, 0.0
        self._threads = set(threading.enumerate())
        callback_handler.register_start_callback(self._begin)
        callback_handler.register_end_callback(self._end)

    def _begin(self, begun: Any) -> None:
        self._began = perf_counter()
        self._compiles += begun.callback_trigger.name == "DYNAMO"

    def _end(self, _: object) -> None:
        self._seconds += perf_counter() - self._began

    def note_shape(self, ran: Ran) -> None:
        ran.cold_compile_ms = [*(ran.cold_compile_ms or ()), self._seconds * 1e3]
        ran.cold_compiles = [*(ran.cold_compiles or ()), self._compiles]
        self._seconds, self._compiles = 0.0, 0

    def note(self, ran: Ran) -> None:
        """Record what was compiled. Raises WorkloadError if steps ran otherwise than requested."""
        counted = self._counters
        ran.compiled_graphs = counted["stats"]["unique_graphs"]
        breaks = (reason.strip().splitlines() for reason in counted["graph_break"])
        ran.graph_breaks = sorted({(lines or ["unknown"])[0] for lines in breaks})
        ran.triton = installed_version("triton")
        skipped = counted["inductor"]["cudagraph_skips"]
        ran.fallbacks = [
            *["torch.compile compiled nothing"] * (not ran.compiled_graphs),
            *["the compiler left out CUDA graphs"] * bool(skipped),
        ]
        if ran.fallbacks:
            because = "; ".join([*ran.fallbacks, *ran.graph_breaks])
            raise WorkloadError(f"execution {self._execution} was not in force: {because}")

    @contextmanager
    def nothing_more(self) -> Iterator[None]:
        """Raise WorkloadError if the model is recompiled in the `with` block."""
        try:
            with torch.compiler.set_stance("fail_on_recompile"):
                yield
        except RuntimeError as error:
            if not str(error).startswith(RECOMPILED):
                raise
            *_, reason = str(error).strip().splitlines()
            raise WorkloadError(
                f"execution {self._execution}: the model was recompiled while it was timed: "
                f"{reason.strip(' -')}"
            ) from error

    @contextmanager
    def naming_a_full_disk(self, cache: str | None) -> Iterator[None]:
        """Raise WorkloadError if the `with` block fails because the disk is full."""
        try:
            yield
        except Exception as error:
            if (full := os.strerror(ENOSPC)) not in str(error):
                raise
            advice = "free some space, or set TMPDIR to another folder for temporary files"
            raise WorkloadError(
                f"execution {self._execution}: {cache or 'its cache'}: {full}: {advice}"
            ) from error

    def end_workers(self) -> None:
        """End the processes and threads of the compiler. The next compilation starts new ones."""
        from torch._inductor.async_compile import AsyncCompile, shutdown_compile_workers

        shutdown_compile_workers()
        if AsyncCompile.pool.cache_info().currsize:
            AsyncCompile.pool().shutdown()
            AsyncCompile.pool.cache_clear()
        for thread in set(threading.enumerate()) - self._threads:
            thread.join(ENDING_S)
