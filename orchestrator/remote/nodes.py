"""Surveys the nodes of a cluster before a sweep."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep, time
from typing import Any, TypeAlias

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cudnn_sweep.orchestrator.errors import NeedsGpuError, ServerError, SpecError
from cudnn_sweep.orchestrator.locks.private_folder import our_temporary_folder
from cudnn_sweep.orchestrator.process.client import ForkServer, survey, survey_of
from cudnn_sweep.workloads.hardware.environment import Environment
from cudnn_sweep.workloads.survey import Survey

NODES_S = 600.0  # a cloud machine takes minutes to start
ANSWER_S = 180.0  # a first import of torch from a network disk takes a minute
MOST_SKEW_S = 5.0  # allowed error of a node's clock
NO_CUDA = "no CUDA, which the suite needs"


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeReport:
    machine: Survey
    free_bytes: int
    clock_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    node_id: str
    address: str
    accelerators: int
    machine: Survey

    @property
    def model(self) -> str:
        return self.machine.environment.gpu


def wait_for_nodes(workers: int, say: Callable[[str], None]) -> None:
    """Wait until the head and `workers` other nodes are up, for at most NODES_S seconds."""
    ends = monotonic() + NODES_S
    shown = None
    while (up := sum(node["Alive"] for node in ray.nodes())) <= workers:
        count = f"{up} of {workers + 1}"
        if monotonic() > ends:
            say(f"{count} nodes came up in {NODES_S / 60:.0f} minutes: continuing with these")
            return
        if up != shown:
            say(f"waiting for nodes: {count} are up")
            shown = up
        sleep(1)


Unfit: TypeAlias = list[tuple[str, str]]
"""Address of each node that cannot be used, and the reason."""


def look_at_nodes(workloads: list[str], *, needs_cuda: bool) -> tuple[list[Node], Unfit]:
    """Return the usable and unusable nodes. Raises NeedsGpuError if no node has a GPU."""
    alive = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("GPU")]
    if not alive:
        raise NeedsGpuError(
            "no node of the cluster has a GPU resource: start its nodes where Ray finds GPUs, or "
            "with --num-gpus"
        )
    answers = {_ask(node["NodeID"], _report, workloads): node for node in alive}
    came_s = dict(_as_they_come([*answers]))
    fit: list[Node] = []
    unfit: Unfit = []
    for answer, node in answers.items():
        address = f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"
        reasons = f"no answer within {ANSWER_S:.0f} s"
        if answer in came_s:
            try:
                report: NodeReport = ray.get(answer)
                reasons = "; ".join(_complaints(report, came_s[answer], needs_cuda))
            except Exception as error:  # noqa: BLE001  # any error on the node
                reasons = _in_words(error)
        if reasons:
            unfit.append((address, reasons))
        else:
            gpus, machine = int(node["Resources"]["GPU"]), report.machine
            fit.append(
                Node(node_id=node["NodeID"], address=address, accelerators=gpus, machine=machine)
            )
    return _alike(fit, unfit)


def _ask(node_id: str, question: Callable[..., object], *arguments: object) -> Any:
    there = NodeAffinitySchedulingStrategy(node_id, soft=False)
    return ray.remote(question).options(num_cpus=0, scheduling_strategy=there).remote(*arguments)


def _as_they_come(answers: list[Any]) -> Iterator[tuple[Any, float]]:
    """Yield each answer that arrives within ANSWER_S, with its time of arrival."""
    ends_s = time() + ANSWER_S
    while answers:
        came, answers = ray.wait(answers, timeout=max(0.0, ends_s - time()))
        if not came:
            return
        yield came[0], time()


def _report(workloads: list[str]) -> NodeReport:
    """Remove old caches, and survey this node in a child process."""
    folder = our_temporary_folder()
    remove_old_caches(folder / "scratch")
    with ForkServer(survey_only=True, folder=Path.cwd()) as server:
        machine = survey(server, workloads)
    return NodeReport(machine=machine, free_bytes=shutil.disk_usage(folder).free, clock_s=time())


def remove_old_caches(folder: Path) -> None:
    for caches in folder.glob("*/compute-cache"):
        if time() - caches.stat().st_mtime > 7 * 86_400:  # a sweep ends within a week
            shutil.rmtree(caches.parent, ignore_errors=True)


def _complaints(report: NodeReport, came_s: float, needs_cuda: bool) -> Iterator[str]:
    if needs_cuda and report.machine.environment.device != "cuda":
        why = report.machine.no_cuda or f"torch {report.machine.environment.torch} finds no CUDA"
        yield f"{NO_CUDA}: {why}"
    if len(set(report.machine.gpus)) > 1:
        yield f"GPUs of several models: {', '.join(sorted(set(report.machine.gpus)))}"
    for facts in report.machine.workloads.values():
        if facts.fault is not None:
            yield facts.fault
    if report.free_bytes < 2**30:
        yield f"{report.free_bytes / 2**20:.0f} MiB free for temporary files, 1 GiB is needed"
    skew_s = report.clock_s - came_s
    if abs(skew_s) > MOST_SKEW_S:
        yield f"its clock is {abs(skew_s):.0f} s {'ahead' if skew_s > 0 else 'behind'}"


def look_at_last_good(nodes: Sequence[Node], python: Path) -> Environment:
    """Return the environment of `python`. Raises SpecError if it differs between nodes."""
    answers = [_ask(node.node_id, survey_of, python, []) for node in nodes]
    environments: list[Environment] = []
    for node, answer in zip(nodes, answers, strict=True):
        try:
            environments.append(ray.get(answer, timeout=ANSWER_S).environment)
        except Exception as error:  # any error on the node
            raise SpecError(f"last_good: {python} on {node.address}: {_in_words(error)}") from error
    if len({environment.software_hash for environment in environments}) > 1:
        raise SpecError(f"last_good: the software of {python} differs between nodes")
    return environments[0]


def _alike(fit: list[Node], unfit: Unfit) -> tuple[list[Node], Unfit]:
    """Keep the largest group of equal nodes of each GPU model. Return other nodes as unfit."""
    counts = Counter((node.model, _hashes(node)) for node in fit)
    common = dict(kind for kind, _ in reversed(counts.most_common()))
    reason = "its hardware or software differs from that of the largest group of equal nodes with"
    odd = [node for node in fit if _hashes(node) != common[node.model]]
    unfit += [(node.address, f"{reason} {node.model}") for node in odd]
    return [node for node in fit if node not in odd], unfit


def _hashes(node: Node) -> tuple[str, str]:
    environment = node.machine.environment
    return environment.env_hash, environment.software_hash


def _in_words(error: Exception) -> str:
    cause = getattr(error, "cause", None) or error
    if isinstance(cause, ServerError):
        return str(cause)
    return f"{type(cause).__name__}: {str(cause).splitlines()[0] if str(cause) else ''}"
