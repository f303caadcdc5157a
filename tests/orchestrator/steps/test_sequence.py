"""What a command about a step leaves in its files, also if there is no answer or a file cannot be written."""

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from cudnn_sweep.analysis.answers.answer import Answer
from cudnn_sweep.orchestrator.errors import ModelError, NeedsGpuError, SpecError
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.steps.sequence import deliver, reported


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SpecError("no such model"), ExitCode.USAGE),
        (ModelError("it raises"), ExitCode.DOES_NOT_RUN),
        (NeedsGpuError("no GPU"), ExitCode.NEEDS_GPU),
    ],
)
def test_files_have_the_exit_code_of_an_error(
    tmp_path: Path, error: Exception, code: ExitCode
) -> None:
    files = [str(tmp_path / name) for name in ("gate.json", "gate.prom")]
    with pytest.raises(type(error)), reported(files, "gate", "nets.py:Net"):
        assert json.loads((tmp_path / "gate.json").read_text())["exit_code"] == ExitCode.UNFINISHED
        raise error
    found = json.loads((tmp_path / "gate.json").read_text())
    assert found == {"headline": f"No answer: {error}", "exit_code": code}
    line = f'cudnn_sweep_gate_exit_code{{model="nets.py:Net"}} {float(code)!r}'
    assert line in (tmp_path / "gate.prom").read_text().splitlines()


def test_a_file_that_cannot_be_written_costs_no_other(tmp_path: Path) -> None:
    (tmp_path / "full.md").symlink_to("/dev/full")
    kept = tmp_path / "kept.json"
    answer = Answer(
        kind="freeze", subject="n", state="fine", headline="Keep it.", files={str(kept): "{}"}
    )
    console, out = Console(file=StringIO()), Console(file=StringIO())
    files = [str(tmp_path / "full.md"), str(tmp_path / "answer.txt")]
    assert deliver(answer, files, console, out, is_json=False) == ExitCode.UNFINISHED
    assert kept.read_text() == "{}"
    assert (tmp_path / "answer.txt").read_text() == "Keep it.\n"


def test_a_name_without_a_known_end_is_refused_before_anything_is_measured() -> None:
    allowed = r"--write gate\.pdf: the name must end in one of .*\.html"
    with pytest.raises(SpecError, match=allowed), reported(["gate.pdf"], "gate", "n"):
        pytest.fail("measured")
