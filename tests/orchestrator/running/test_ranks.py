"""A launch with trials on one rank and on two: in which order they run, and what reaches each rank."""

import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.orchestrator.typed import sweep

pytestmark = pytest.mark.measuring

LAUNCH_FILE = """
metadata:
  sweep:
    replicates: 1
    measure: {warmup_s: 0, steady_budget_s: 0.02, calibrate: false, timeout_s: 100}
    cells: [{workload: "net.py:Net", input: 4x3x8x8, ranks: [2, 1]}]
"""
NET = """
import json, os
from pathlib import Path
import torch
from torch import nn

class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 2))
        if torch.distributed.is_initialized():
            seen = {name: os.environ[name] for name in os.environ if "NVLS" in name or "SYMM" in name}
            rank = torch.distributed.get_rank()
            Path(f"{__file__}-{rank}.json").write_text(json.dumps(seen))
"""
GIVEN = {
    "NCCL_NVLS_ENABLE": "0",
    "NVSHMEM_DISABLE_NVLS": "1",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
}
COLUMNS = ["ranks", "status", "started_at", "rank_results", "rank_variables"]


@pytest.mark.long
def test_a_launch_runs_one_rank_first_and_two_have_its_variables(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(LAUNCH_FILE)
    (tmp_path / "net.py").write_text(NET)
    done = sweep("launch", here=tmp_path, **GIVEN)
    assert done.returncode == 0, done.stdout + done.stderr
    parts = (tmp_path / "results").rglob("*.parquet")
    rows = [row for part in parts for row in pq.read_table(part, columns=COLUMNS).to_pylist()]
    rows.sort(key=lambda row: row["started_at"])
    assert {row["status"] for row in rows} == {"ok"}
    ranks = [row["ranks"] for row in rows]
    assert ranks == sorted(ranks) and {*ranks} == {"1_rank", "2_ranks"}
    others = {name: text for name, text in os.environ.items() if name.startswith("NCCL_")}
    for row in rows:
        if row["ranks"] == "1_rank":
            assert row["rank_results"] is row["rank_variables"] is None
        else:
            assert dict(row["rank_variables"]) == others | GIVEN
    for rank in (0, 1):
        assert json.loads((tmp_path / f"net.py-{rank}.json").read_text()) == GIVEN
