"""One thread for the tests' own torch, and what a fresh process measures."""

from collections.abc import Iterator

import pytest
import torch

from cudnn_sweep.orchestrator.process.client import ForkServer
from cudnn_sweep.orchestrator.process.protocol import Request, TrialJob
from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.measurement import Measurement, TrialRequest
from tests.workloads.made_up_cells import DEFAULT, QUICK, MeasureCell


@pytest.fixture(scope="package", autouse=True)
def _one_thread() -> Iterator[None]:
    """Tensors of tests are so small that a second thread waits for the first, and takes its core."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def measured(server: ForkServer) -> MeasureCell:
    """What a fresh process measured of a cell, with nothing gone wrong."""

    def run(cell: Cell, config: Config = DEFAULT, compute_cache: str | None = None) -> Measurement:
        trial = TrialRequest(
            cell=cell,
            config=config,
            measure=QUICK,
            seed=1,
            compute_cache=compute_cache,
            reference=True,
        )
        outcome = server.run(Request(job=TrialJob(trial=trial), timeout_s=QUICK.timeout_s))
        assert (outcome.status, outcome.message) == ("ok", None)
        assert outcome.reply is not None and outcome.reply.measured is not None
        assert outcome.reply.measured.checks_error is None
        return outcome.reply.measured

    return run
