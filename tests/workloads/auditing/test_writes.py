"""Who wrote a flag or a variable, from where, how often, and which writes are none of an audit's."""

from pathlib import Path

import pytest
import torch

from cudnn_sweep.workloads.auditing.writes import variables_now
from tests.workloads.auditing.test_watching import watched

HELPER = """
from torch.backends import cudnn
def put():
    for _ in range(3):
        cudnn.benchmark = True
def passed_on(set):
    set()
"""
SCRIPT = """
import os, sys, torch
sys.path.insert(0, os.getcwd())
import helper
torch.nn.functional.conv1d(torch.zeros(1, 1, 3), torch.zeros(1, 1, 1))
helper.put()
def own():
    torch.backends.cudnn.deterministic = True
helper.passed_on(own)
os.putenv(b"CUDNN_BYTES", b"1")
for name in ("TORCH_CUDNN_A", "CUDA_CACHE_A", "CUBLAS_A", "NVIDIA_TF32_OVERRIDE", "CUDA_CACHES", "A_CUDNN_", "TORCH_A"):
    os.environ[name] = "1"
    os.environ[name] = "2"
    del os.environ[name]
child = os.fork()
if not child:
    os.environ["CUDNN_CHILD"] = "1"
    os._exit(0)
os.waitpid(child, 0)
quiet = child
child = os.fork()
if not child:
    torch.backends.cudnn.enabled = False
    os._exit(0)
os.waitpid(child, 0)
open("pids", "w").write(f"{quiet} {child}")
"""
MADE_UP = '''
import os, torch
text = """
def write(flag, *values):
    for value in values:
        getattr(torch._C, f"_set_cudnn_{flag}")(value)
"""
exec(compile(text, os.path.join(os.path.dirname(torch.__file__), "made_up.py"), "exec"))
torch.backends.cudnn.benchmark = False
write("benchmark", True, True, False)
write("deterministic", True, False, True)
torch.backends.cudnn.benchmark = True
'''


def test_a_write_has_its_line_its_caller_in_another_file_and_its_times(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text(HELPER)
    found = watched(tmp_path, SCRIPT)
    flags = [
        (
            *(w.name, w.before, w.after, w.times, w.at_call),
            (Path(w.at.file).name, w.at.line, w.at.function),
            w.called_from and (Path(w.called_from.file).name, w.called_from.line),
        )
        for w in found.writes
        if w.kind == "flag"
    ]
    put = ("helper.py", 5, "put")
    assert flags == [
        ("benchmark", False, True, 1, 1, put, ("script.py", 6)),
        ("benchmark", True, True, 2, 1, put, ("script.py", 6)),
        ("deterministic", False, True, 1, 1, ("script.py", 8, "own"), ("helper.py", 7)),
    ]
    variables = [(w.name, w.before, w.after) for w in found.writes if w.kind == "variable"]
    assert variables == [
        ("CUDNN_BYTES", None, "1"),
        *(
            (name, *change)
            for name in ("TORCH_CUDNN_A", "CUDA_CACHE_A", "CUBLAS_A", "NVIDIA_TF32_OVERRIDE")
            for change in ((None, "1"), ("1", "2"), ("2", None))
        ),
    ]
    callers = {w.called_from for w in found.writes if w.kind == "variable"}
    assert {caller and caller.function for caller in callers} == {"_run"}, "what runs the script"
    quiet, child = (tmp_path / "pids").read_text().split()
    assert (tmp_path / f"findings.json.{child}").exists(), "a child set a flag"
    assert not (tmp_path / f"findings.json.{quiet}").exists()


def test_torchs_own_writes_count_unless_the_last_one_restores_what_was_first(
    tmp_path: Path,
) -> None:
    writes = [
        (w.name, w.at.function, w.before, w.after, w.times)
        for w in watched(tmp_path, MADE_UP).writes
    ]
    assert writes == [
        ("benchmark", "<module>", False, False, 1),
        ("deterministic", "write", False, True, 2),
        ("deterministic", "write", True, False, 1),
        ("benchmark", "<module>", False, True, 1),
    ]


def test_flags_at_the_end_are_those_of_torch(tmp_path: Path) -> None:
    text = "import torch\ntorch.backends.cudnn.deterministic = True\ntorch.use_deterministic_algorithms(True)\n"
    found = watched(tmp_path, text)
    names = {"enabled", "benchmark", "deterministic", "allow_tf32", "use_deterministic_algorithms"}
    assert found.flags_at_end.keys() >= names | {"conv.fp32_precision", "rnn.fp32_precision"}
    assert [found.flags_at_end[name] for name in sorted(names)] == [True, False, True, True, True]
    assert (found.torch, found.gpu, found.cudnn) == (torch.__version__, None, None)
    assert (found.limit_reached, found.error, found.wall_s >= 0) == (False, None, True)


def test_variables_are_those_of_cudnn_and_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in variables_now():
        monkeypatch.delenv(name)
    assert variables_now() == {}
    kept = ("CUDNN_A", "CUDA_LAUNCH_BLOCKING", "CUBLAS_A", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE")
    for name in (*kept, "CUDA_HOME", "TORCH_HOME", "NVIDIA_A"):
        monkeypatch.setenv(name, "1")
    assert variables_now() == dict.fromkeys(kept, "1")
