"""Checks before a measurement whether a cell's execution and ranks are possible."""

from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.expand import WorkloadFacts
from cudnn_sweep.workloads.execution import EAGER, EXECUTIONS
from cudnn_sweep.workloads.hardware.environment import Environment
from cudnn_sweep.workloads.precision import find_precision
from cudnn_sweep.workloads.states.plain import Plain


def execution_fault(
    cell: Cell, config: Config, traits: WorkloadFacts, *, device: str, compiler: str | None
) -> str | None:
    """Return why a config's execution cannot run a cell, or None if no reason is known."""
    how, name = config.how, f"execution {config.execution}"
    if how.needs_cuda and device != "cuda":
        allowed = ", ".join(each for each, other in EXECUTIONS.items() if not other.needs_cuda)
        return f"{name} needs a GPU; allowed without a GPU: {allowed}"
    if how.compiles and compiler is None:
        return f"{name} needs a C++ compiler; install g++, or set CXX to a compiler"
    if how.compiles and traits.is_model and not traits.recomputes:
        return f"{name} needs a model, but {cell.workload} is a step with its own backward pass"
    if not how.captured:
        return None
    if not cell.may_end():
        return f"{name} needs shapes that repeat, but the shapes of regime {cell.regime} do not"
    if cell.state != Plain.name:
        return f"{name} replays a graph; found state {cell.state}, allowed: {Plain.name}"
    return scaling_fault(config, cell.under(config).precision, cell.direction)


def scaling_fault(config: Config, precision: str, direction: str) -> str | None:
    """Return why a config cannot train in `precision` as a CUDA graph, or None if it can."""
    scales = direction == "training" and find_precision(precision).autocast == "float16"
    if config.how.captured and scales:
        name = f"execution {config.execution}"
        return f"{name} cannot train in {precision}, because loss scaling waits for the GPU"
    return None


def ranks_fault(
    cell: Cell, config: Config, traits: WorkloadFacts, *, gpus: int, machine: Environment
) -> str | None:
    """Return why a cell's ranks cannot run on a host with `gpus` GPUs, or None if they can."""
    count = cell.rank_count
    if count == 1:
        return None
    if not (traits.is_model and traits.recomputes and cell.direction == "training"):
        found = f"{cell.workload} ({cell.direction})"
        return f"ranks: found {found}, allowed with several ranks: training of a torch.nn.Module"
    if cell.state != Plain.name:
        return f"ranks: found state {cell.state}, allowed with several ranks: {Plain.name}"
    if config.execution is not None:
        return f"ranks: found execution {config.execution}, allowed with several ranks: {EAGER}"
    if machine.mig_profile is not None:
        return "ranks: found slices of a GPU (MIG); several ranks need whole GPUs"
    there = gpus or machine.cpu_cores
    if count > there:
        unit = ("GPU" if gpus else "CPU core") + "s" * (there != 1)
        return f"ranks: found {count}, but this machine has {there} {unit} for the sweep"
    return None
