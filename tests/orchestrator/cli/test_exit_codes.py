"""A code means one thing in every command, and docs/exit-codes.md says which a command ends with."""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NoReturn

import pytest
import typer

from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.orchestrator.cli import app, failing
from cudnn_sweep.orchestrator.cli.commands import Command
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.locks import sweep_lock
from cudnn_sweep.orchestrator.process.client import ForkServer
from tests.analysis.conftest import processes
from tests.orchestrator.typed import invoke

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/exit-codes.md"
SWEEP = [sys.executable, "-m", "cudnn_sweep.orchestrator.cli"]
FULL = "/dev/full"
FILES = {
    "cluster.yaml": "metadata: {sweep: {suite: one.yaml, nightly: {suite: one.yaml, wait_minutes: 0}}}\n",
    "gpu-night.yaml": "metadata: {sweep: {suite: gpu.yaml, nightly: {suite: gpu.yaml}}}\n",
    "one.yaml": "cells: [workload: noop]\nconfigs: [{}]\nreplicates: 2\n",
    "gpu.yaml": "needs_cuda: true\ncells: [workload: noop]\n",
    "breaks.yaml": "cells: [{workload: 'breaks.py:Net', input: 1x3x8x8}]\n",
    "nets.py": "import torch\n\nclass Net(torch.nn.Conv2d):\n    def __init__(self):\n        super().__init__(3, 3, 3)\n",
    "breaks.py": "raise ValueError('out of order')\n",
    "lacks.py": "import no_such_package\n",
    "exits.py": "import os\nos._exit(0)\n",
    "leaves.py": "raise SystemExit(0)\n",
    "dies.py": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
    "seven.py": "raise SystemExit(7)\n",
}
STEP = "--input 1x3x8x8"
CASES = f"""
2 advise nets.py:Net --inptu 1x3x8x8
2 advise nets.py:Gone {STEP}
2 advise gone.py:Net {STEP}
2 advise no_such_package:Net {STEP}
2 advise nets.py:Net
2 advise nets.py:Net {STEP} --from-store --results one
4 advise breaks.py:Net {STEP}
4 advise lacks.py:Net {STEP}
4 advise exits.py:Net {STEP}
4 advise leaves.py:Net {STEP}
4 advise dies.py:Net {STEP}
2 freeze
6 advise exits.py:Net {STEP}
5 freeze exits.py:Net {STEP}
5 freeze noop
2 freeze noop --output nowhere/noop.json
2 bans noop --minutes few
5 bans exits.py:Net {STEP}
5 bans noop
2 gate . .
2 gate . nowhere noop
2 gate . . noop --write nowhere/gate.md
2 gate . . noop --comment gate.md
2 gate . . gone.py:Net {STEP} --results gates
3 gate . . breaks.py:Net {STEP} --results gates
0 gate . . breaks.py:Net {STEP} --results gates --cannot-tell ok
6 gate . . exits.py:Net {STEP} --results gates
6 bisect exits.py:Net {STEP} --pythons a,b
2 bisect noop
2 launch gone.yaml
2 launch --suite nope
2 launch --shard 1/2
4 launch --suite breaks.yaml
4 launch --suite breaks.yaml --dry-run
5 launch --suite gpu.yaml
0 launch --suite gpu.yaml --dry-run
6 launch
6 launch --suite breaks.yaml
0 launch --dry-run
0 status --results one
2 status gone.yaml
0 trace nets.py:Net {STEP} --list-only
2 trace nets.py:Gone {STEP}
2 trace nets.py:Net {STEP} --output nowhere/nets.yaml
4 trace nets.py:Net --input 1x4x8x8
4 trace breaks.py:Net {STEP}
4 trace exits.py:Net {STEP}
7 audit seven.py
2 audit --write nowhere/report.md seven.py
2 audit --write {FULL} seven.py
0 query sweeps --results one
0 query sweeps --results empty
0 query failures --results one
2 query nope --results one
2 query failures --results one --sweep-id nope
2 query failures --results one --sweep-id 'no*'
2 query failures --results damaged
2 query sweeps --results one --format json --output nowhere/rows.json
6 query sweeps --results one --format json --output {FULL}
0 report --results empty --format markdown
2 report --results one --sweep-id nope
2 report --results one --sweep-id nope --page field_cases
2 report --results damaged --format markdown
2 report --results damaged --page field_cases --format markdown
2 report --results one --output nowhere/report.html
6 report --results one --format markdown --output {FULL}
0 compare 2.11.0 2.12.0 --results made-up
1 compare 2.11.0 2.12.0 --results made-up --fail-on hurts
3 compare one other --results apart --fail-on hurts
2 compare 2.11.0 9.9.9 --results made-up
2 compare 2.11.0 2.12.0 --results made-up --sweep-id nope
2 compare 2.11.0 2.12.0 --results made-up --where driver=1.0
2 compare a b --results damaged
0 repro N004
2 repro nope --results one
0 list suites
2 list suites all
0 list workloads
2 list workloads all
0 list schema suite
2 list schema sweet
2 nightly gone.yaml
2 nightly --night tomorrow
3 nightly --no-measure
5 nightly gpu-night.yaml
0 nightly gpu-night.yaml --dry-run
6 nightly
2 cluster attach gone.yaml
2 cluster stop gone.yaml
2 cluster pull gone.yaml
2 cluster down gone.yaml
1 doctor --quick --telemetry off --results one.yaml/below
2 doctor --seconds many
"""
LINES = [line.partition(" ") for line in CASES.strip().splitlines()]
DEAR = ("report", "compare", "nightly", "doctor")


def _commands(group: Any, above: str = "") -> Iterator[str]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{above}{name} ")
        else:
            yield f"{above}{name}"


COMMANDS = sorted(_commands(typer.main.get_command(app)))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_case_here_and_a_row_on_the_page(command: str) -> None:
    assert any(f"{line} ".startswith(f"{command} ") for _, _, line in LINES)
    assert re.search(rf"^\| `sweep {command}` \|", PAGE.read_text(), re.MULTILINE)


@pytest.mark.parametrize("code", ExitCode)
def test_every_code_has_a_row_on_the_page(code: ExitCode) -> None:
    assert re.search(rf"^\| {code.value} \| `{code.name}` \|", PAGE.read_text(), re.MULTILINE)


@pytest.fixture
def ending(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command's end does not end this process."""

    def exit_with(code: int) -> NoReturn:
        raise SystemExit(code)

    monkeypatch.setattr(failing, "leave", exit_with)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models, suites and results."""
    made = tmp_path_factory.mktemp("codes")
    for name, text in FILES.items():
        (made / name).write_text(text)
    for name in ("one", "damaged"):
        (made / name / "sweep=night-1").mkdir(parents=True)
    record = ROOT / "tests/analysis/data/schema-1.parquet"
    shutil.copy(record, made / "one/sweep=night-1/part-1.parquet")
    (made / "damaged/sweep=night-1/part-1.parquet").write_bytes(b"PAR1")
    (made / "empty").mkdir()
    (made / "made-up").symlink_to(ROOT / "tests/goldens/made-up")
    for sweep_id in ("one", "other"):
        columns = {"sweep_id": sweep_id, "cell_id": sweep_id}
        open_store(str(made / "apart")).write(*processes(sweep_id, [1.0], **columns))
    return made


@pytest.fixture(scope="module")
def without_gpu(folder: Path) -> Iterator[ForkServer]:
    with ForkServer(folder=folder, variables={"CUDA_VISIBLE_DEVICES": ""}) as server:
        yield server


@pytest.fixture
def here(
    folder: Path, monkeypatch: pytest.MonkeyPatch, without_gpu: ForkServer, ending: None
) -> Path:
    """On a machine without a GPU."""
    for user in ("doctor.examine", "process.client", "running.this_machine"):
        module = f"cudnn_sweep.orchestrator.{user}"
        monkeypatch.setattr(f"{module}.ForkServer", lambda **_: nullcontext(without_gpu))
    monkeypatch.setattr(sweep_lock, "PREFIX", f"test-{os.getpid()}-")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("code", "line"),
    [
        pytest.param(int(code), line, marks=[pytest.mark.slow] if line.startswith(DEAR) else [])
        for code, _, line in LINES
    ],
)
def test_a_command_ends_with_the_code_of_what_happened(code: int, line: str) -> None:
    is_busy = code in (ExitCode.UNFINISHED, ExitCode.NEEDS_GPU)
    with sweep_lock.measuring_lock(["cpu"]) if is_busy else nullcontext():
        done = invoke(line.replace("'", "").split())
    assert (done.exit_code, "Traceback" in done.output) == (code, False), done.output


def test_a_sweep_that_is_not_there_is_refused_with_those_that_are(here: Path) -> None:
    done = invoke(["report", "--results", "one", "--sweep-id", "nope"])
    assert (
        "no sweep nope is stored in " in done.stderr and "newest sweeps are night-1" in done.stderr
    )
    assert not (here / "report.html").exists()


# --- Whatever happens, in every command ---

UNFORESEEN = {
    "a bug": (ZeroDivisionError("of ours"), ExitCode.UNFINISHED, "ZeroDivisionError: of ours"),
    "Ctrl-C": (KeyboardInterrupt(), ExitCode.INTERRUPTED, "sweep: interrupted"),
    "no answer": (typer.Abort(), ExitCode.INTERRUPTED, "sweep: interrupted"),
    "a reader that left": (BrokenPipeError(errno.EPIPE, ""), ExitCode.UNFINISHED, ""),
    "a full disk": (
        OSError(errno.ENOSPC, "No space left on device"),
        ExitCode.UNFINISHED,
        "No space left on device\n",
    ),
}


@pytest.mark.usefixtures("ending")
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("what", UNFORESEEN)
def test_what_a_command_did_not_foresee_is_never_taken_for_its_answer(
    monkeypatch: pytest.MonkeyPatch, command: str, what: str
) -> None:
    error, code, text = UNFORESEEN[what]

    def raises(*_: object, **__: object) -> NoReturn:
        raise error

    monkeypatch.setattr(Command, "make_context", raises)
    done = invoke(command.split())
    assert done.exit_code == code
    assert text in done.stderr and (text or not done.stderr)
    assert ("Traceback" in done.stderr) == (what == "a bug")


def test_an_error_that_came_of_a_signal_ends_with_the_signals_code(
    monkeypatch: pytest.MonkeyPatch, ending: None
) -> None:
    def interrupted(*_: object, **__: object) -> NoReturn:
        try:
            raise KeyboardInterrupt
        finally:
            raise ValueError("the fork server is gone")

    monkeypatch.setattr(Command, "make_context", interrupted)
    assert invoke(["list", "suites"]).exit_code == ExitCode.INTERRUPTED


# --- Standard output, of a process ---


@pytest.mark.parametrize("words", ["--version", "--help", "list schema suite", "query --list"])
def test_a_full_disk_as_standard_output_is_one_line(words: str) -> None:
    with open(FULL, "w") as full:
        done = subprocess.run(
            [*SWEEP, *words.split()], stdout=full, stderr=-1, text=True, check=False
        )
    assert done.returncode == ExitCode.UNFINISHED
    assert done.stderr == "sweep: standard output: No space left on device\n"


@pytest.mark.parametrize("words", ["list suites", "--help", "query --list"])
def test_a_reader_that_has_read_enough_is_no_error(words: str) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run(
        [*SWEEP, *words.split()], stdout=theirs, stderr=-1, text=True, check=False
    )
    os.close(theirs)
    assert (done.returncode, done.stderr) == (ExitCode.UNFINISHED, "")


# --- Signals ---


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "number", "code"),
    [
        pytest.param("advise", signal.SIGINT, ExitCode.INTERRUPTED, marks=pytest.mark.long),
        ("trace", signal.SIGTERM, ExitCode.TERMINATED),
    ],
)
def test_a_signal_while_a_module_is_looked_at_ends_with_its_code(
    tmp_path: Path, command: str, number: signal.Signals, code: ExitCode
) -> None:
    (tmp_path / "hangs.py").write_text("import time\nopen('begun', 'w')\ntime.sleep(600)\n")
    words = [*SWEEP, command, "hangs.py:Net", *STEP.split()]
    with subprocess.Popen(
        words, cwd=tmp_path, stderr=-1, stdout=-1, text=True, start_new_session=True
    ) as running:
        while not (tmp_path / "begun").exists():
            assert running.poll() is None
            time.sleep(0.05)
        os.killpg(running.pid, number)
        _, said = running.communicate(timeout=60)
    assert running.returncode == code, said
    assert "Traceback" not in said
