"""Little memory, of a made-up driver and of a real one."""

from dataclasses import replace

import pytest
import torch

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.find_state import make_state
from cudnn_sweep.workloads.find_workload import find_workload
from cudnn_sweep.workloads.hardware import cuda_driver
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.workload import TimedStep
from tests.workloads.made_up_cells import CPU, GPU, context_of


class FakeMemory:
    """A GPU's memory as CUDA's driver sees it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, free_mib: float) -> None:
        self.free_mib = free_mib
        self.taken: dict[int, float] = {}
        monkeypatch.setattr(cuda_driver, "allocate", self.allocate)
        monkeypatch.setattr(cuda_driver, "free", self.free)
        monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (int(self.free_mib * 2**20), 0))

    def allocate(self, size_bytes: int) -> int:
        address = len(self.taken) + 1
        self.taken[address] = size_bytes / 2**20
        self.free_mib -= self.taken[address]
        return address

    def free(self, address: int) -> None:
        self.free_mib += self.taken.pop(address)


def test_little_memory_is_left_beside_the_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = FakeMemory(monkeypatch, free_mib=100_000.5)
    seen: list[float] = []

    def prepare(shape: Shape) -> None:
        seen.append(memory.free_mib)
        memory.free_mib -= 5000

    def look(inputs: None) -> dict[str, torch.Tensor]:
        seen.append(memory.free_mib)
        return {}

    step = TimedStep(prepare=prepare, run=look, examine=look, accuracy=lambda: memory.free_mib)
    state = make_state("little_memory", {"free_mib": 3000})
    surrounded = state.surround(step, replace(context_of("plain"), device=GPU.torch))
    for _ in range(2):
        surrounded.run(surrounded.prepare((1,)))
    assert seen == [100_000.5, 3000.5, 95_000.5, 3000.5]
    assert surrounded.examine is not None and surrounded.accuracy is not None
    surrounded.examine(surrounded.prepare((1,)))
    assert seen[4:] == [90_000.5, 85_000.5] and surrounded.accuracy() == 85_000.5
    surrounded.prepare((1,))
    assert 3000 <= memory.free_mib < 3002
    del surrounded
    assert memory.free_mib == 80_000.5 and not memory.taken


def test_less_memory_than_is_to_be_left_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeMemory(monkeypatch, free_mib=800)
    step = TimedStep(prepare=lambda shape: None, run=lambda inputs: None)
    state = make_state("little_memory", {})
    surrounded = state.surround(step, replace(context_of("plain"), device=GPU.torch))
    with pytest.raises(WorkloadError, match="free_mib is 1024, but .* leave only 800 MiB free"):
        surrounded.prepare((1,))


def test_little_memory_leaves_a_cpu_alone() -> None:
    step = TimedStep(prepare=lambda shape: None, run=lambda inputs: None)
    context = context_of("plain", device=CPU)
    assert make_state("little_memory", {}).surround(step, context) is step


@pytest.mark.gpu
def test_gpu_has_little_memory_left_until_the_step_is_gone() -> None:
    slack = 64 * 2**20  # what CUDA itself takes beside it
    context = context_of("little_memory", free_mib=512)
    torch.ones(1, device="cuda")
    torch.cuda.empty_cache()
    before, _ = torch.cuda.mem_get_info()
    held = torch.cuda.memory_reserved()  # by tensors of earlier tests
    torch.cuda.reset_peak_memory_stats()
    step = find_workload("conv").step(context)
    assert context.problem is not None
    inputs = step.prepare(context.problem.input_shape)
    left, _ = torch.cuda.mem_get_info()
    assert abs(left - 512 * 2**20) < slack
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(2**30, dtype=torch.uint8, device="cuda")
    step.run(inputs)
    torch.cuda.synchronize()
    own = torch.cuda.max_memory_reserved() - held
    assert own < 512 * 2**20, "what was taken is not the step's"
    del step
    assert torch.cuda.mem_get_info()[0] > before - 512 * 2**20 - slack
