"""Scripts that look hard at the Python that runs them: an audit prints what plain Python prints."""

import difflib
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from cudnn_sweep.orchestrator.auditing.audit import audit_script
from cudnn_sweep.orchestrator.planning.options import AuditRequest

Attempts = Callable[[int, int], int]
SIGNALLED = 128  # an exit code, and the signal's number
LONG_S = 100.0
# Addresses, times of torch's profiler, and what docs/your-model.md says of tracebacks.
OF_A_PROCESS = re.compile(
    rb"0x[0-9a-f]{8,}|USDT:.*\n|"
    rb' +File "[^"]*(/workloads/auditing/.*|".*, in _wrapped_call_impl)\n(    .*\n)+'
)

KIT = "def two():\n    return 2\n"
TEXTS = YAML(typ="safe", pure=True).load((Path(__file__).parent / "scripts.yaml").read_text())
OTHERWISE: dict[str, dict[str, Any]] = TEXTS["otherwise"]
SCRIPTS: dict[str, str] = TEXTS["python"] | {
    f"torch: {name}": TEXTS["net"] + text for name, text in TEXTS["torch"].items()
}
SCRIPTS |= {name: SCRIPTS[each["script"]] for name, each in OTHERWISE.items() if "script" in each}
Captured = pytest.CaptureFixture[bytes]
Ended = tuple[int, bytes, bytes]


def ended(folder: Path, captured: Captured, name: str, run: Callable[[list[str]], int]) -> Ended:
    """Exit code, standard output and standard error, in a folder that has the same files each time."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "tmp").mkdir(parents=True)
    told = OTHERWISE.get(name, {})
    texts = {"kit.py": KIT, "script.py": SCRIPTS[name], "stdin": told.get("stdin", "")}
    for file, text in (texts | told.get("files", {})).items():
        (folder / file).write_text(text)
    with pytest.MonkeyPatch.context() as patch, _stdin(folder / "stdin"):
        patch.chdir(folder)
        patch.setenv("TMPDIR", str(folder / "tmp"))
        patch.setattr("tempfile.tempdir", str(folder / "tmp"))
        for variable, value in told.get("environment", {}).items():
            patch.setenv(variable, value)
        captured.readouterr()
        code = run(told.get("arguments", []))
    out, err = (OF_A_PROCESS.sub(b"", text) for text in captured.readouterr())
    return code, out, err


@contextmanager
def _stdin(file: Path) -> Iterator[None]:
    before = os.dup(0)
    with file.open() as opened:
        os.dup2(opened.fileno(), 0)
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)


def plainly(arguments: list[str]) -> int:
    words = [sys.executable, "script.py", *arguments]
    environment = dict(os.environ)  # without what C code has put beside it, as for the audited one
    done = subprocess.run(words, env=environment, check=False, timeout=LONG_S)
    return done.returncode if done.returncode >= 0 else SIGNALLED - done.returncode


def audited(arguments: list[str]) -> int:
    request = AuditRequest(
        script="script.py", is_module=False, arguments=tuple(arguments), seconds=LONG_S, steps=None
    )
    return audit_script(request).exit_code


@pytest.mark.slow
def test_audit_ends_and_prints_as_plain_python(
    tmp_path: Path, attempts: Attempts, seed: int, capfdbinary: Captured
) -> None:
    differ = {}
    chosen = random.Random(seed).sample(list(SCRIPTS), attempts(1, len(SCRIPTS)))
    for name in chosen:
        without, under = (
            ended(tmp_path / "here", capfdbinary, name, run) for run in (plainly, audited)
        )
        if without != under:
            differ[name] = "\n".join(difflib.unified_diff(_lines(without), _lines(under)))
    print(f"{len(chosen)} scripts")
    assert not differ, "\n\n".join(f"{name}\n{told}" for name, told in differ.items())


def _lines(found: Ended) -> list[str]:
    code, out, err = found
    return [f"exit code {code}", *map(repr, out.splitlines()), *map(repr, err.splitlines())]
