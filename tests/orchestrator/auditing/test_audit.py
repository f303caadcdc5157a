"""A script under audit runs as without; tests/attacks/test_audits.py compares many more."""

import json
import os
import signal
import time
from pathlib import Path
from threading import Thread

import pytest

from tests.orchestrator.auditing.audited import SCRIPTS, audit, findings_of
from tests.orchestrator.typed import python

pytestmark = pytest.mark.usefixtures("here")


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_results_of_a_training_stay_bit_identical(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    audited = audit(SCRIPTS["training"], device)
    with_audit = capfd.readouterr().out
    found = findings_of(audited)
    (here / "net.pt").unlink()
    without = python("script.py", device)
    assert without.returncode == 0, without.stderr
    assert with_audit == without.stdout != ""
    (net,) = found.models
    assert (net.name, net.calls, net.convolutions) == ("Net", 12, 36)
    assert sum(each.training for each in net.shapes) == 12
    assert len(net.shapes) > 1


@pytest.mark.parametrize(("is_module", "python_path"), [(False, None), (True, "/somewhere:/else")])
def test_script_runs_as_python_runs_it(
    here: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    is_module: bool,
    python_path: str | None,
) -> None:
    if python_path is None:
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONPATH", python_path)
    (here / "package").mkdir()
    (here / "package" / "script.py").write_text(SCRIPTS["surroundings"])
    script = "package.script" if is_module else "package/script.py"
    arguments = ("a b", "--epochs", "3")
    audited = audit(None, *arguments, script=script, is_module=is_module)
    with_audit = json.loads(capfd.readouterr().out)
    without = json.loads(python(*["-m"] * is_module, script, *arguments).stdout)
    added = set(with_audit.pop("modules")) - set(without.pop("modules"))
    assert dict(with_audit.pop("environment")) == dict(without.pop("environment"))
    assert with_audit == without
    heavy = {"torch", "numpy", "pydantic", "typer", "rich", "ray", "duckdb"}
    assert "cudnn_sweep" in added and not added & heavy
    assert (audited.ended, audited.exit_code) == ("itself", 3)
    assert findings_of(audited).torch is None


@pytest.mark.slow
def test_error_of_the_script_is_found_and_its_failed_call_counts_as_none() -> None:
    audited = audit(SCRIPTS["failing"])
    found = findings_of(audited)
    assert (audited.exit_code, found.error, found.calls) == (1, "RuntimeError", 1)


WAITING = "import time\ntry:\n    time.sleep(600)\nfinally:\n    print('closed')\n"


@pytest.mark.long
def test_steps_and_seconds_end_the_script_cleanly(capfd: pytest.CaptureFixture[str]) -> None:
    stepped, waited = audit(SCRIPTS["endless"], steps=7), audit(WAITING, seconds=3.0)
    assert findings_of(stepped).models[0].calls == 7
    assert findings_of(waited).wall_s < 100
    assert {(each.ended, each.exit_code) for each in (stepped, waited)} == {("limit", 0)}
    assert capfd.readouterr() == ("closed\n" * 2, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.long)],
)
def test_interrupt_still_reports(
    here: Path, capfd: pytest.CaptureFixture[str], number: int, code: int
) -> None:
    def interrupt() -> None:
        while not (here / "began").exists():
            time.sleep(0.05)
        time.sleep(0.2)
        os.kill(os.getpid(), number)

    thread = Thread(target=interrupt)
    thread.start()
    audited = audit(SCRIPTS["endless"])
    thread.join()
    assert (audited.ended, audited.exit_code) == ("interrupt", code)
    assert findings_of(audited).calls > 0
    assert capfd.readouterr().out == "closed\n"


@pytest.mark.slow
def test_an_end_without_goodbye_is_reported_too() -> None:
    audited = audit("import os, torch\ntorch.backends.cudnn.benchmark = True\nos._exit(5)\n")
    assert (audited.ended, audited.exit_code) == ("itself", 5)
    assert [each.name for each in findings_of(audited).writes] == ["benchmark"]
    killed = audit("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    assert (killed.ended, killed.exit_code, killed.findings) == ("signal", 137, None)
