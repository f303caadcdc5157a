"""One table of exit codes holds for every command, as docs/exit-codes.md has it."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest
import typer

from cudnn_sweep.orchestrator.cli import app, failing
from cudnn_sweep.orchestrator.errors import SweepBusyError
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.launching import destinations
from tests.conftest import ROOT
from tests.orchestrator.typed import invoke

PAGE = (ROOT / "docs/exit-codes.md").read_text()
STORED = str(ROOT / "docs/results/h200-2026-11-21/quick")
FINE, WORSE, USAGE, CANNOT_TELL = (ExitCode(code) for code in range(4))
QUERY = "cudnn_sweep.orchestrator.cli.query"
RAISES = "raise RuntimeError('no weights here')\n"
SUITE = "cells: [{workload: noop}]\nneeds_cuda: true\nreplicates: 1\n"

# Of each command a line and the code that it ends with, here without a GPU and without results.
LINES: dict[str, list[tuple[str, int]]] = {
    "advise": [
        ("raises.py:net --input 1x1", ExitCode.DOES_NOT_RUN),
        ("exits.py:net --input 1x1", ExitCode.DOES_NOT_RUN),
        ("nowhere.py:net --input 1x1", USAGE),
        ("raises.py:net --steps 5 --hours 5", USAGE),
    ],
    "freeze": [("noop", ExitCode.NEEDS_GPU), ("raises.py:net --input 1x1", ExitCode.NEEDS_GPU)],
    "engines": [("noop", ExitCode.NEEDS_GPU)],
    "gate": [
        ("'' HEAD noop", USAGE),
        (". nowhere noop", USAGE),
        (". . noop --comment missing/gate.md", USAGE),
        (". . noop --comment .", USAGE),
        (". . raises.py:net --input 1x1", CANNOT_TELL),
        (". . raises.py:net --input 1x1 --cannot-tell ok", FINE),
        (". . nowhere.py:net --input 1x1", USAGE),
        (". fine raises.py:net --input 1x1", ExitCode.USAGE),
    ],
    "bisect": [("noop --pythons one,other", USAGE)],
    "launch": [
        ("--suite nowhere", USAGE),
        ("cuda.yaml", ExitCode.NEEDS_GPU),
        ("cuda.yaml --dry-run", ExitCode.NEEDS_GPU),
        ("raises.yaml", ExitCode.DOES_NOT_RUN),
    ],
    "nightly": [("nowhere.yaml", USAGE), ("night.yaml --dry-run", ExitCode.NEEDS_GPU)],
    "compare": [
        (f"2.11.0 2.12.0 --results {STORED}", USAGE),
        (f"2.11.0 2.12.0 --results {STORED} --sweep-id nowhere", USAGE),
        (f"2.11.0 H200 --results {STORED} --where gpu=nothing", USAGE),
    ],
    "doctor": [("--quick --telemetry off", FINE), ("--quick --results cuda.yaml", WORSE)],
    "trace": [
        ("raises.py:net --input 1x1", ExitCode.DOES_NOT_RUN),
        ("fails.py:Net --input 1x1", ExitCode.DOES_NOT_RUN),
        ("nowhere.py:net --input 1x1", USAGE),
    ],
    "audit": [("nowhere.py", USAGE), ("exits.py", 7)],
    "status": [("nowhere.yaml", USAGE)],
    "query": [
        ("sweeps", FINE),
        ("nowhere", USAGE),
        (f"helps_or_hurts --results {STORED} --sweep-id nowhere", USAGE),
        (f"failures --results {STORED}", FINE),
        ("sweeps --results damaged", USAGE),
        ("sweeps --output missing/sweeps.csv", USAGE),
    ],
    "report": [
        ("--format markdown", FINE),
        (f"--format markdown --results {STORED} --sweep-id nowhere", USAGE),
        ("--format markdown --results damaged", USAGE),
        ("--output missing/report.html", USAGE),
    ],
    "repro": [("N999", USAGE)],
    "suites": [("", FINE), ("--nothing", USAGE)],
    "workloads": [("", FINE)],
    "schema": [("suite", FINE), ("nothing", USAGE)],
    "cluster attach": [("nowhere.yaml", USAGE)],
    "cluster stop": [("nowhere.yaml", USAGE)],
    "cluster pull": [("nowhere.yaml", USAGE)],
    "cluster down": [("nowhere.yaml", USAGE)],
}


def _commands(command: Any, above: str = "") -> list[str]:
    inner = getattr(command, "commands", {})
    names = [f"{above} {name}".strip() for name in inner]
    return [
        each
        for name, part in zip(names, inner.values(), strict=True)
        for each in (_commands(part, name) if hasattr(part, "commands") else [name])
    ]


EVERY = _commands(typer.main.get_command(app))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with models that do not run, suites that need a GPU, and results that are damaged."""

    def leave(code: int) -> NoReturn:
        raise SystemExit(code)

    monkeypatch.setattr(failing, "leave", leave)  # it would end Python
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (tmp_path / "raises.py").write_text(RAISES)
    (tmp_path / "exits.py").write_text("import os\nos._exit(7)\n")
    (tmp_path / "fails.py").write_text(
        "import torch\nclass Net(torch.nn.Module):\n"
        "    def forward(self, x: torch.Tensor) -> torch.Tensor:\n        raise ValueError('no')\n"
    )
    (tmp_path / "cuda.yaml").write_text(SUITE)
    (tmp_path / "raises.yaml").write_text("cells: [{workload: 'raises.py:net', input: 1x1}]\n")
    night = "{suite: cuda.yaml}"
    (tmp_path / "night.yaml").write_text(
        f"metadata: {{sweep: {{suite: cuda.yaml, nightly: {night}}}}}"
    )
    (tmp_path / "results").mkdir()
    part = tmp_path / "damaged/sweep=one/part-00000000.parquet"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"PAR1, and then nothing that is whole PAR1")
    return tmp_path


def test_every_command_and_every_code_is_on_the_page_and_among_these_lines() -> None:
    assert set(LINES) == set(EVERY)
    named = re.findall(r"`sweep ([a-z ]+)`", PAGE.partition("## By command")[2])
    assert set(EVERY) <= set(named)
    codes = [int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)]
    assert codes == [int(code) for code in ExitCode]


@pytest.mark.parametrize(
    ("line", "code"),
    [(f"{command} {line}", code) for command, lines in LINES.items() for line, code in lines],
)
def test_command_ends_with_the_code_of_the_table(line: str, code: int) -> None:
    ended = invoke([word.strip("'") for word in line.split()])
    assert ended.exit_code == code, ended.output
    assert "Traceback" not in ended.output


def test_device_that_another_sweep_measures_on_is_not_finished(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def busy(*_: object, **__: object) -> NoReturn:
        raise SweepBusyError("another sweep is measuring on cpu: process 1 of root on vm")

    monkeypatch.setattr(destinations, "plan_sweep", busy)
    ended = invoke(["launch", "--suite", "quick"])
    assert ended.exit_code == ExitCode.UNFINISHED
    assert "another sweep is measuring on cpu" in ended.output


def test_error_that_nobody_foresaw_is_a_traceback_and_not_finished(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object, **__: object) -> NoReturn:
        raise ZeroDivisionError("a bug of ours")

    monkeypatch.setattr(sys.modules[QUERY], "open_results", fails)
    ended = invoke(["query", "sweeps"])
    assert ended.exit_code == ExitCode.UNFINISHED
    assert "ZeroDivisionError: a bug of ours" in ended.output


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (typer.Abort(), 130)])
def test_interrupt_is_130(error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> NoReturn:
        raise error

    monkeypatch.setattr(sys.modules[QUERY], "open_results", stopped)
    assert invoke(["query", "sweeps"]).exit_code == code


OUTPUTS = ["--help", "suites", "query --list", "launch --help", "schema suite"]


@pytest.mark.parametrize("line", OUTPUTS)
def test_full_disk_as_standard_output_is_one_line_and_not_finished(line: str) -> None:
    with open("/dev/full", "w") as full:
        ended = _typed(line, full)
    assert ended.returncode == ExitCode.UNFINISHED
    assert ended.stderr == "sweep: standard output: No space left on device\n"


@pytest.mark.parametrize("line", OUTPUTS)
def test_closed_pipe_is_quiet_and_not_finished(line: str) -> None:
    with subprocess.Popen(["true"], stdin=subprocess.PIPE) as reader:
        reader.wait()
        ended = _typed(line, reader.stdin)
    assert ended.returncode == ExitCode.UNFINISHED
    assert ended.stderr == ""


def _typed(line: str, output: Any) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "cudnn_sweep.orchestrator.cli", *line.split()]
    return subprocess.run(command, check=False, stdout=output, stderr=subprocess.PIPE, text=True)
