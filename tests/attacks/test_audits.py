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

import pytest
from ruamel.yaml import YAML

from cudnn_sweep.orchestrator.auditing.audit import AuditRequest, audit_script

Attempts = Callable[[int, int], int]
SIGNALLED = 128  # an exit code, and the signal's number
LONG_S = 100.0
OF_A_PROCESS = re.compile(rb"0x[0-9a-f]{8,}|USDT:.*\n")  # addresses, and times of torch's profiler

TEXTS = YAML(typ="safe", pure=True).load((Path(__file__).parent / "scripts.yaml").read_text())
SCRIPTS: dict[str, str] = {
    **TEXTS["python"],
    **{f"torch: {name}": TEXTS["net"] + text for name, text in TEXTS["torch"].items()},
    **{
        f"argparse {words}": TEXTS["python"]["argparse"]
        for words in ("--help", "--epochs x y", "--epochs 3 y")
    },
}
ARGUMENTS = {name: name.split()[1:] for name in SCRIPTS if name.startswith("argparse ")}
STDIN = {"stdin": "one\ntwo\nthree\n", "debugger": "p x\nw\nn\nc\n"}
ENVIRONMENT = {
    "warnings are errors": {"PYTHONWARNINGS": "error"},
    "torch: warnings are errors, torch": {"PYTHONWARNINGS": "error"},
    "hash seed": {"PYTHONHASHSEED": "3"},
    "warnings": {"PYTHONDEVMODE": "1"},
    "flags and surroundings": {"PYTHONPATH": "/nowhere", "PYTHONOPTIMIZE": "1"},
    "bytes": {"PYTHONIOENCODING": "latin-1"},
}
KIT = "def two():\n    return 2\n"
FILES = {
    "indentation in a module": {"kit.py": "def f():\nreturn 1\n"},
    "shadowed modules": {
        f"{name}.py": "mine = bisect_left = bisect_right = loads = quote = True\n"
        for name in ("bisect", "inspect", "json", "shlex", "tokenize")
    },
}


class Runs:
    """Runs a script in a folder of its own: the same name, and the same files, each time."""

    def __init__(self, folder: Path, captured: pytest.CaptureFixture[bytes]) -> None:
        self._folder = folder
        self._captured = captured

    def of(self, name: str, run: Callable[[list[str]], int]) -> tuple[int, bytes, bytes]:
        """Exit code, standard output and standard error."""
        shutil.rmtree(self._folder, ignore_errors=True)
        (self._folder / "tmp").mkdir(parents=True)
        texts = {"kit.py": KIT, "script.py": SCRIPTS[name], "stdin": STDIN.get(name, "")}
        for file, text in (texts | FILES.get(name, {})).items():
            (self._folder / file).write_text(text)
        with pytest.MonkeyPatch.context() as patch, _stdin(self._folder / "stdin"):
            patch.chdir(self._folder)
            patch.setenv("TMPDIR", str(self._folder / "tmp"))
            patch.setattr("tempfile.tempdir", str(self._folder / "tmp"))
            for variable, value in ENVIRONMENT.get(name, {}).items():
                patch.setenv(variable, value)
            self._captured.readouterr()
            code = run(ARGUMENTS.get(name, []))
        out, err = (OF_A_PROCESS.sub(b"", text) for text in self._captured.readouterr())
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
    tmp_path: Path, attempts: Attempts, seed: int, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    runs, differ = Runs(tmp_path / "here", capfdbinary), {}
    chosen = random.Random(seed).sample(list(SCRIPTS), attempts(5, len(SCRIPTS)))
    for name in chosen:
        without, under = runs.of(name, plainly), runs.of(name, audited)
        if without != under:
            differ[name] = "\n".join(difflib.unified_diff(_lines(without), _lines(under)))
    print(f"{len(chosen)} scripts")
    assert not differ, "\n\n".join(f"{name}\n{told}" for name, told in differ.items())


def _lines(ended: tuple[int, bytes, bytes]) -> list[str]:
    code, out, err = ended
    return [f"exit code {code}", *map(repr, out.splitlines()), *map(repr, err.splitlines())]
