"""What an audit finds in a script."""

import json
from collections import Counter
from pathlib import Path

import pytest

from cudnn_sweep.workloads.auditing.libraries import main_files
from tests.orchestrator.auditing.audited import audit, findings_of

pytestmark = pytest.mark.usefixtures("here")


WRITES = """
    import os
    import torch
    from torch.backends import cudnn
    def enabled():
        cudnn.enabled = False  # enabled False
    def benchmark():
        torch.backends.cudnn.benchmark = True  # benchmark True
    def deterministic():
        setattr(cudnn, "deterministic", True)  # deterministic True
    def allow_tf32():
        cudnn.allow_tf32 = False  # allow_tf32 False
    def private():
        torch._C._set_cudnn_benchmark(False)  # benchmark False
    def set_flags():
        cudnn.set_flags(_enabled=True, _fp32_precision=None)  # enabled True
    def context():
        with cudnn.flags(enabled=True, benchmark=True, allow_tf32=False):  # benchmark True
            pass
    def algorithms():
        torch.use_deterministic_algorithms(True)  # use_deterministic_algorithms True
    def debug_mode():
        torch.set_deterministic_debug_mode("default")  # use_deterministic_algorithms False
    def precision():
        cudnn.conv.fp32_precision = "ieee"  # conv.fp32_precision ieee
    def environ():
        os.environ["TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT"] = "7"  # TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT 7
    def setdefault():
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # CUBLAS_WORKSPACE_CONFIG :4096:8
    def update():
        os.environ.update(CUDA_CACHE_PATH="/x", UNRELATED="1")  # CUDA_CACHE_PATH /x
    def put():
        os.putenv("CUDNN_LOGLEVEL_DBG", "3")  # CUDNN_LOGLEVEL_DBG 3
    def gone():
        os.environ.pop("CUDA_CACHE_PATH")  # CUDA_CACHE_PATH None
    def gone_too():
        del os.environ["CUBLAS_WORKSPACE_CONFIG"]  # CUBLAS_WORKSPACE_CONFIG None
    for each in (enabled, benchmark, deterministic, allow_tf32, private, set_flags, context, algorithms,
                 debug_mode, precision, environ, setdefault, update, put, gone, gone_too):
        each()
"""


def test_each_kind_of_write_is_found_with_its_line(here: Path) -> None:
    found = findings_of(audit(WRITES))
    written = {
        (each.at.function, each.name, str(each.after)): each.at.line
        for each in found.writes
        if each.before != each.after
    }
    function, expected = "", {}
    for number, line in enumerate((here / "script.py").read_text().splitlines(), start=1):
        if line.startswith("def "):
            function = line[4:].partition("(")[0]
        if "  # " in line:
            name, after = line.rpartition("# ")[2].split()
            expected[function, name, after] = number
    assert len(expected) == 16
    assert written.items() >= expected.items()
    assert {each.at.file for each in found.writes} == {str(here / "script.py")}
    assert "UNRELATED" not in {each.name for each in found.writes}
    assert found.flags_at_start["benchmark"] is False
    assert found.flags_at_end["use_deterministic_algorithms"] is False


CONVOLUTIONS = """
    import json
    from dataclasses import asdict
    from threading import Thread
    import torch, torch.nn.functional as F
    from torch import nn
    from cudnn_sweep.workloads.measuring.model_trace import ConvolutionWatch
    from cudnn_sweep.workloads.precision import find_precision

    r = torch.randn
    two = nn.Conv2d(3, 4, 3, padding=1)
    calls = [
        lambda: nn.Conv1d(2, 4, 3)(r(5, 2, 9)),
        lambda: two(r(5, 3, 8, 8)),
        lambda: two(r(6, 3, 8, 8)),
        lambda: nn.Conv3d(2, 4, 3, stride=(1, 2, 2))(r(1, 2, 7, 8, 9)),
        lambda: nn.ConvTranspose1d(2, 4, 3)(r(5, 2, 9)),
        lambda: nn.ConvTranspose2d(4, 4, 2, stride=2, output_padding=1, groups=2)(r(5, 4, 8, 8)),
        lambda: nn.ConvTranspose3d(2, 4, 3)(r(1, 2, 3, 4, 5)),
        lambda: F.conv2d(r(5, 3, 8, 8), r(4, 3, 3, 3), padding=1),
        lambda: F.conv2d(input=r(5, 3, 8, 8), weight=r(4, 3, 3, 3), stride=[2, 2], groups=1),
        lambda: torch.conv2d(r(5, 3, 8, 8), r(4, 3, 3, 3), None, [2, 2]),
        lambda: torch.nn.functional.conv_transpose2d(r(2, 3, 8, 8), r(3, 4, 3, 3), dilation=2),
        lambda: nn.Conv2d(3, 4, 3, dilation=2)(r(5, 3, 8, 8).double()) if False else
            nn.Conv2d(3, 4, 3, dilation=2).double()(r(5, 3, 8, 8).double()),
    ]
    watch = ConvolutionWatch(find_precision("tf32"))
    with watch:
        for each in calls:
            each()
            each()
    def again():
        with watch:
            two(r(5, 3, 8, 8))
    thread = Thread(target=again)  # its plans are its own, its shapes are not new
    thread.start(); thread.join()
    with torch.no_grad():
        again()
    json.dump([[asdict(each), times] for each, times in watch.seen.items()], open("trace.json", "w"))
"""


@pytest.mark.slow
def test_convolutions_are_counted_as_a_trace_lists_them(here: Path) -> None:
    found = findings_of(audit(CONVOLUTIONS))
    sizes = ("stride", "padding", "dilation", "groups", "output_padding", "dtype")
    traced: Counter[str] = Counter()
    for each, times in json.loads((here / "trace.json").read_text()):
        shapes = each["input_shape"], each["weight_shape"], each["transposed"]
        traced[json.dumps([*shapes, *(each[name] for name in sizes)])] += times
    counted = {
        json.dumps(
            [each.input, each.weight, "transpose" in each.operation]
            + [getattr(each, name) for name in sizes]
        ): each.calls
        for each in found.convolutions
    }
    assert len(counted) == 10
    assert counted == traced
    assert found.calls == traced.total()
    assert found.threads == 2
    assert found.arrivals[0] == (1, 1)
    assert found.arrivals[-1] == (found.calls, 10)


STATES = """
    import torch, torch.nn.functional as F
    from torch.backends import cudnn
    x, w = torch.randn(2, 4, 8, 8), torch.randn(4, 4, 3, 3)
    last = torch.channels_last
    F.conv2d(x, w)
    F.conv2d(x.to(memory_format=last), w)
    F.conv2d(x, w.to(memory_format=last))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        F.conv2d(torch.randn(3, 4, 8, 8), w)
    cudnn.benchmark = True
    F.conv2d(x, w)
    cudnn.deterministic = True
    F.conv2d(x, w)
    F.conv2d(x[0], w)
    F.conv2d(x[:1], w)
    cudnn.conv.fp32_precision = "ieee"
    cudnn.deterministic = False
    F.conv2d(x, w)
    w.requires_grad_()
    F.conv2d(torch.randn(9, 4, 8, 8), w).sum().backward()
"""


def test_what_the_plan_depends_on_tells_convolutions_apart_and_benchmark_does_not() -> None:
    found = findings_of(audit(STATES)).convolutions
    told = [
        (each.input[0], each.memory_format, each.dtype, each.deterministic, each.allow_tf32)
        for each in found
    ]
    assert told == [
        (2, "contiguous", "float32", False, True),
        (2, "channels_last", "float32", False, True),
        (3, "contiguous", "bfloat16", False, True),
        (2, "contiguous", "float32", True, True),
        (1, "contiguous", "float32", True, True),
        (2, "contiguous", "float32", False, False),
        (9, "contiguous", "float32", False, False),
    ]
    assert [each.calls for each in found] == [2, 2, 1, 1, 2, 1, 1]
    assert [each.calls_with_benchmark for each in found] == [1, 0, 0, 1, 2, 1, 1]
    assert [each.benchmark_at_first for each in found] == [False] * 3 + [True] * 4
    assert [each.autocast_at_first for each in found] == [False, False, True, *[False] * 4]
    assert all(each.first_forward_s > 0 for each in found)
    assert [each.first_backward_s is not None for each in found] == [False] * 6 + [True]


UNSEEN = """
    import os, sys, subprocess, torch
    from torch import nn
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Conv2d(3, 4, 3)
        def forward(self, x):
            return self.layer(x).mean()
    x = torch.zeros(1, 3, 8, 8)
    eager = Net()
    expected = eager(x)
    compiled = torch.compile(Net(), backend="aot_eager", fullgraph=True)
    for _ in range(3):
        compiled(x).backward()
    again = torch.compile(eager, backend="aot_eager", fullgraph=True)
    assert torch.equal(again(x), expected)
    step = torch.compile(lambda x: eager(x) * 2, backend="aot_eager", fullgraph=True)
    assert torch.equal(step(x), expected * 2)
    torch.vmap(lambda each: torch.conv2d(each, eager.layer.weight))(x[None])
    in_place = Net()
    in_place.compile(backend="aot_eager")
    in_place(x)
    if os.fork() == 0:
        os._exit(0)
    os.wait()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_what_was_not_seen_is_said_and_never_none() -> None:
    found = findings_of(audit(UNSEEN))
    said = {each.what: each.evidence for each in found.not_seen}

    def evidence(word: str) -> str | None:
        (text,) = [value for what, value in said.items() if word in what]
        return text

    assert "Net has some and was called" in str(evidence("compiled code"))
    assert "torch.compile made" in str(evidence("compiled code"))
    assert evidence("vmap") == "called 1 time"
    assert evidence("other processes") == (
        "1 process forked, as DataLoader's workers are; 1 Python process started"
    )
    for always in ("backward", "C++ extensions", "CUDA graph", "TorchScript", "flags that C++"):
        assert evidence(always) is None
    assert found.calls == 1, "the eager call of this process"
    (net,) = [each for each in found.models if each.name == "Net"]
    assert (net.calls, net.unseen) == (6, "compiled")


def test_only_the_outermost_model_is_one_and_a_loss_is_none() -> None:
    text = """
        import torch
        from torch import nn
        class Part(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Conv2d(3, 4, 3, padding=1)
            def forward(self, x):
                return self.layer(x)
        class Whole(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.parts = nn.ModuleList([Part()])
            def forward(self, name, batch):
                return self.parts[0](batch["image"])
        whole, loss = Whole(4), nn.MSELoss()
        for size in (8, 8, 9):
            batch = {"label": torch.zeros(2, dtype=torch.int64), "image": torch.zeros(2, 3, size, size)}
            found = whole("name", batch=batch)
            loss(found, torch.zeros(found.shape))
        with torch.no_grad():
            whole("name", batch)
            Part()(torch.zeros(5, 3, 7, 7))
        from concurrent.futures import ThreadPoolExecutor
        part = Part()
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda _: part(torch.zeros(5, 3, 7, 7)), range(20)))
    """
    part, whole = findings_of(audit(text)).models
    assert (whole.name, whole.calls, whole.convolutions) == ("Whole", 4, 4)
    assert whole.required_arguments == ("width",)
    assert whole.arrivals == ((1, 1), (4, 2))
    counts = {each.shape: (each.training, each.inference) for each in whole.shapes}
    assert counts == {(2, 3, 8, 8): (2, 0), (2, 3, 9, 9): (1, 1)}
    assert (part.name, part.calls, part.convolutions) == ("Part", 21, 21)
    assert [each.shape for each in part.shapes] == [(5, 3, 7, 7)]


ON_A_GPU = """
    import torch, torch.nn.functional as F
    from torch.backends import cudnn
    x, w = torch.randn(8, 16, 32, 32), torch.randn(16, 16, 3, 3)
    F.conv2d(x, w)
    assert not torch.cuda.is_initialized()
    x, w = x.cuda(), w.cuda().requires_grad_()
    F.conv2d(x, w)
    cudnn.benchmark = True
    F.conv2d(x, w)
    F.conv2d(torch.randn(9, 16, 32, 32, device="cuda"), w).sum().backward()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        F.conv2d(torch.randn(10, 16, 32, 32, device="cuda"), w)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad():
        F.conv2d(x, w)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            F.conv2d(x, w)
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
"""


@pytest.mark.gpu
def test_on_a_gpu_the_library_is_named_and_first_calls_are_timed() -> None:
    found = findings_of(audit(ON_A_GPU))
    assert found.gpu is not None and found.cudnn is not None
    assert len(main_files(found.libraries)) == 1
    on_cpu, early, searched, cast = found.convolutions
    assert (on_cpu.device, early.device) == ("cpu", "cuda:0")
    assert not early.benchmark_at_first and early.calls_with_benchmark == 3
    assert searched.benchmark_at_first and searched.first_forward_s > 0
    assert searched.first_backward_s is not None and searched.first_backward_s > 0
    assert (cast.dtype, cast.autocast_at_first) == ("bfloat16", True)
    (graphs,) = [each for each in found.not_seen if "CUDA graph" in each.what]
    assert graphs.evidence == "graphs were replayed 3 times"
