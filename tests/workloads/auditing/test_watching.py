"""What an audit notes in the process that it watches: here in forks of the tests' own, which need no start of Python."""

import os
import traceback
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn

import pytest
import torch
from pydantic import TypeAdapter

from cudnn_sweep.workloads.auditing import begin
from cudnn_sweep.workloads.auditing.convolutions import arrivals_at, new_in_tail
from cudnn_sweep.workloads.auditing.findings import Findings
from tests.orchestrator.auditing.audited import CONVOLUTIONS_OF_STATES, SCRIPTS

FLAGS = """
import os, torch
from torch.backends import cudnn
def put():
    os.environ["CUDNN_LOGLEVEL_DBG"] = "3"  # CUDNN_LOGLEVEL_DBG 3
    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"  # CUDA_LAUNCH_BLOCKING 1
    os.environ["UNRELATED"] = "1"
def gone():
    del os.environ["CUDNN_LOGLEVEL_DBG"]  # CUDNN_LOGLEVEL_DBG None
def flag():
    cudnn.benchmark = True  # benchmark True
def context():
    with cudnn.flags(enabled=True, benchmark=True, allow_tf32=False):  # allow_tf32 False
        pass
def precision():
    cudnn.conv.fp32_precision = "ieee"  # conv.fp32_precision ieee
    torch.backends.cuda.matmul.fp32_precision = "ieee"
for each in (put, gone, flag, context, flag, precision):
    each()
"""
SIZES = """
import torch, torch.nn.functional as F
r = torch.randn
for _ in range(2):
    F.conv1d(r(5, 2, 9), r(4, 2, 3))
    F.conv2d(input=r(5, 3, 8, 8), weight=r(4, 3, 3, 3), stride=[2, 1], padding="same" if _ > 1 else 1)
    F.conv2d(r(3, 8, 8), r(4, 3, 3, 3), None, 1, "valid", 2)
    F.conv_transpose2d(r(5, 4, 8, 8), r(4, 2, 2, 2), stride=2, output_padding=1, groups=2)
    F.conv3d(r(1, 2, 7, 8, 9).double(), r(4, 2, 3, 3, 3).double(), stride=(1, 2, 2))
F.conv2d(r(6, 3, 8, 8), r(4, 3, 3, 3))
"""
NETS = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, width, depth=2, **more):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, width, 3), nn.Conv2d(width, width, 1)
    def forward(self, images, scale=1.0, masks=None):
        return self.second(self.first(images)) * scale
class Both(Net):
    def forward(self, batch):
        return {"loss": super().forward(batch["image"]).mean()}
net, wrapped, both = Net(4, depth=3, other=nn.ReLU()), nn.DataParallel(Net(5)), Both(*[6])
net(torch.zeros(2, 3, 8, 8))
net(torch.zeros(2, 3, 9, 9), scale=torch.tensor(2.0))
with torch.no_grad():
    net(torch.zeros(3, 3, 8, 8), 2.0, masks=[1])
wrapped(torch.zeros(2, 3, 8, 8))
both({"image": torch.zeros(2, 3, 8, 8), "label": torch.zeros(2, dtype=torch.int64)})
nn.MSELoss()(torch.zeros(2), torch.zeros(2))
nn.Conv2d(3, 4, 3)(torch.zeros(2, 3, 8, 8))
"""
BY_TORCH = '''
import os, torch
text = """
def sets_it_back():
    torch._C._set_cudnn_benchmark(True)
    torch._C._set_cudnn_benchmark(False)
def leaves_it():
    torch._C._set_cudnn_deterministic(True)
"""
exec(compile(text, os.path.join(os.path.dirname(torch.__file__), "made_up.py"), "exec"))
sets_it_back()
leaves_it()
'''


def watched(folder: Path, text: str) -> Findings:
    """Run a script in a fork that is audited, and return what was found there."""
    script, file, failure = folder / "script.py", folder / "findings.json", folder / "failure"
    script.write_text(text)
    child = os.fork()
    if child == 0:
        _run(script, file, failure)
    os.waitpid(child, 0)
    assert not failure.exists(), failure.read_text()
    found = TypeAdapter(Findings).validate_json(file.read_bytes())
    assert found.own_errors == ()
    return found


def _run(script: Path, file: Path, failure: Path) -> NoReturn:
    try:
        torch.set_num_threads(1)  # those of the tests' process are not in its fork
        torch.backends.cudnn.allow_tf32 = True  # a test before may have set half of it
        os.chdir(script.parent)
        audit = begin._Audit(str(file), None)
        audit._writes.watch_variables()
        audit._watch_torch(torch)
        code = compile(script.read_text(), str(script), "exec")
        exec(code, {"__name__": "__main__"})  # noqa: S102
        audit._write()
    except BaseException:  # noqa: BLE001  # the test raises it
        failure.write_text(traceback.format_exc())
    finally:
        os._exit(0)


def test_writes_of_flags_and_variables_are_noted_with_line_and_times(tmp_path: Path) -> None:
    found = watched(tmp_path, FLAGS)
    function, expected = "", {}
    for number, line in enumerate(FLAGS.splitlines(), start=1):
        if line.startswith("def "):
            function = line[4:].partition("(")[0]
        if "  # " in line:
            name, after = line.rpartition("# ")[2].split()
            expected[function, name, after] = number
    changed = [each for each in found.writes if each.before != each.after]
    written = {(w.at.function, w.name, str(w.after)): w.at.line for w in changed}
    assert written.items() >= expected.items()
    assert {each.at.file for each in found.writes} == {str(tmp_path / "script.py")}
    names = {each.name for each in found.writes}
    assert "UNRELATED" not in names
    (first, again) = (w for w in found.writes if w.at.function == "flag")
    assert [(w.before, w.after, w.times) for w in (first, again)] == [
        (False, True, 1),
        (True, True, 1),
    ]
    kinds = Counter((each.kind, each.name) for each in found.writes if each.at.function == "put")
    assert set(kinds) == {("variable", "CUDNN_LOGLEVEL_DBG"), ("variable", "CUDA_LAUNCH_BLOCKING")}
    assert found.flags_at_end["benchmark"] is True


def test_flags_that_torch_sets_by_itself_are_noted_unless_it_sets_them_back(tmp_path: Path) -> None:
    (left,) = watched(tmp_path, BY_TORCH).writes
    assert (left.name, left.before, left.after) == ("deterministic", False, True)
    assert left.at.function == "leaves_it"


def test_convolutions_have_their_sizes_however_they_are_given(tmp_path: Path) -> None:
    found = watched(tmp_path, SIZES)
    names = ("operation", "input", "stride", "padding", "dilation", "groups", "output_padding")
    told = [tuple(asdict(each)[name] for name in (*names, "calls")) for each in found.convolutions]
    assert told == [
        ("conv1d", (5, 2, 9), (1,), (0,), (1,), 1, (0,), 2),
        ("conv2d", (5, 3, 8, 8), (2, 1), (1, 1), (1, 1), 1, (0, 0), 2),
        ("conv2d", (1, 3, 8, 8), (1, 1), "valid", (2, 2), 1, (0, 0), 2),
        ("conv_transpose2d", (5, 4, 8, 8), (2, 2), (0, 0), (1, 1), 2, (1, 1), 2),
        ("conv3d", (1, 2, 7, 8, 9), (1, 2, 2), (0, 0, 0), (1, 1, 1), 1, (0, 0, 0), 2),
        ("conv2d", (6, 3, 8, 8), (1, 1), (0, 0), (1, 1), 1, (0, 0), 1),
    ]
    assert [each.dtype for each in found.convolutions] == [*["float32"] * 4, "float64", "float32"]
    assert [each.arrived_at for each in found.convolutions] == [1, 2, 3, 4, 5, 11]
    assert (found.calls, found.not_told_apart) == (11, 0)
    assert found.arrivals == ((1, 1), (10, 5), (11, 6))
    assert found.new_in_last_tenth == 1


def test_what_a_plan_depends_on_tells_convolutions_apart(tmp_path: Path) -> None:
    found = watched(tmp_path, SCRIPTS["states"]).convolutions
    told = [
        (each.input[0], each.memory_format, each.dtype, each.deterministic, each.allow_tf32)
        for each in found
    ]
    assert told == CONVOLUTIONS_OF_STATES
    assert [each.calls_with_benchmark for each in found] == [1, 0, 0, 1, 2, 1, 1]
    assert [each.autocast_at_first for each in found] == [False, False, True, *[False] * 4]


def test_models_have_what_makes_them_and_what_they_are_called_with(tmp_path: Path) -> None:
    by_name = {each.name: each for each in watched(tmp_path, NETS).models if not each.wrapped_in}
    assert set(by_name) == {"Net", "Both"}, "neither a loss nor a layer alone"
    net, both = by_name["Net"], by_name["Both"]
    assert net.made is not None and net.made.arguments == {"width": 4, "depth": 3}
    assert net.made.others == ["other (ReLU)"]
    assert net.parameters == ("images", "scale", "masks")
    assert net.elements == 3 * 4 * 9 + 4 + 4 * 4 + 4
    assert (net.calls, net.convolutions, net.in_a_call) == (3, 6, ((True, 2), (False, 2)))
    shapes = {each.shape: (each.training, each.inference) for each in net.shapes}
    assert shapes == {(2, 3, 8, 8): (1, 0), (2, 3, 9, 9): (1, 0), (3, 3, 8, 8): (0, 1)}
    given = {(each.training, each.name): (each.kind, each.shape) for each in net.arguments}
    assert given[True, "scale"] == ("float32", ())
    assert given[False, 1] == ("float", None)
    assert given[False, "masks"] == ("list", None)
    kind, sizes = given[True, 0]
    assert kind == "float32"
    assert sizes == ((2, "batch"), (3, "channels"), ("height", "width"), ("height", "width"))
    assert not net.own_loss and both.own_loss
    assert both.made is not None and both.made.arguments == {"width": 6}
    parts = {each.key: (each.kind, each.shape) for each in both.arguments}
    assert parts["label"] == ("int64", ((2, "batch"),))


def test_a_wrapped_model_is_the_one_inside(tmp_path: Path) -> None:
    (wrapped,) = (each for each in watched(tmp_path, NETS).models if each.wrapped_in)
    assert (wrapped.name, wrapped.wrapped_in, wrapped.calls) == ("Net", "DataParallel", 1)


@pytest.mark.parametrize(
    ("arrived", "calls", "arrivals", "late"),
    [
        ([], 0, (), 0),
        ([1], 1, ((1, 1),), 1),
        ([1, 2, 90, 91], 100, ((1, 1), (10, 2), (100, 4)), 1),
        ([1, 90], 101, ((1, 1), (10, 1), (100, 2), (101, 2)), 0),
    ],
)
def test_arrivals_are_counted_by_powers_of_ten_and_in_the_last_tenth(
    arrived: list[int], calls: int, arrivals: tuple[tuple[int, int], ...], late: int
) -> None:
    assert arrivals_at(arrived, calls) == arrivals
    assert new_in_tail(arrived, calls) == late
