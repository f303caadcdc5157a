"""`sweep trace`: its list, the suite that it writes, and that a launch takes it."""

import json
import shlex
import sys
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from tests.orchestrator.typed import invoke, sweep

NETS = """
from torch import nn

def small(width: int = 4, name: str = "") -> nn.Module:
    print("a user's module prints what it likes", name)
    first = nn.Conv2d(3, width, 3, padding=1, bias=False)
    again = [nn.Conv2d(width, width, (1, 7), padding=(0, 3)) for _ in range(2)]
    return nn.Sequential(first, *again, nn.ConvTranspose2d(width, 2, 2, stride=2))

class Texts(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.layer = nn.Embedding(10, 4), nn.Conv1d(4, 6, 3)
    def forward(self, ids, scale):
        return self.layer(self.words(ids).transpose(1, 2)) * scale
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "nets.py").write_text(NETS)
    (tmp_path / "cluster.yaml").write_text("")
    return tmp_path


@pytest.mark.long
def test_json_is_all_that_standard_output_has_and_the_suite_is_launched_as_it_is(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["trace", "nets.py:small", "--input", "2x3x8x8", "--json", "--output", "other.yaml"]
    words += ["--direction", "inference", "--argument", "width=4", "--argument", "name=two words"]
    told = sweep(*words, here=here)
    found = json.loads(told.stdout)
    assert found["request"]["arguments"] == {"width": 4, "name": "two words"}
    first, again, up = found["convolutions"]
    assert (first["name"], first["input_shape"], first["times"]) == ("conv1_3x3_4", [2, 3, 8, 8], 1)
    assert first["flops"] == 2 * (2 * 4 * 64) * 27
    assert (again["times"], again["padding"], again["bias"]) == (2, [0, 3], True)
    assert (up["transposed"], up["out_channels"]) == (True, 2)
    assert found["count"] == 4
    assert "Wrote other.yaml" in told.stderr
    assert "'0x3'" in (here / "other.yaml").read_text()
    monkeypatch.setattr(
        "cudnn_sweep.orchestrator.cli.failing.leave", sys.exit
    )  # the tests' process goes on
    monkeypatch.chdir(here)
    plan = invoke(["launch", "cluster.yaml", "--suite", "other.yaml", "--dry-run"])
    assert plan.exit_code == 0, plan.stderr
    assert "conv2_1x7_4 forward " in plan.stdout
    assert "3 cells × 2 configs" in plan.stdout


@pytest.mark.long
def test_inputs_are_described_as_in_a_suite(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here)
    inputs = "{ids: {shape: [batch, length], dtype: int64, below: 10}, scale: {shape: []}}"
    told = invoke(["trace", "nets.py:Texts", "--input", "2x9", "--inputs", inputs])
    assert told.exit_code == 0, told.stderr
    assert "2x4x9 → 6" in told.stdout
    (again,) = [x for x in (here / "Texts.yaml").read_text().splitlines() if "sweep trace" in x]
    words = shlex.split(again.removeprefix("#"))
    assert words[2:6] == ["nets.py:Texts", "--input", "2x9", "--inputs"]
    assert yaml.safe_load(words[6]) == yaml.safe_load(inputs)
