"""The cases of the advice study, what is done of each, the lanes that they take, and what a process answers."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from cudnn_sweep.orchestrator.gpus.cpu_pinning import pinning_of
from cudnn_sweep.orchestrator.steps.step_options import AdviseOptions
from cudnn_sweep.workloads.hardware.listed_gpus import listed_gpus

RUNS = 3  # each way
TRIES = 2  # of a case that fails
OFF, ON = "off", "on"
ANSWER = "answer: "  # what a child's line of JSON begins with


class CaseError(Exception):
    """A part of a case failed; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    model: str
    input: str
    arguments: dict[str, Any]
    regime: str | None
    state: str
    side: str
    """below or above the break-even point, where a run of 10 to 20 s can be there."""

    def options(self, results: Path, **more: Any) -> AdviseOptions:
        return AdviseOptions(
            workload=self.model,
            input=(self.input,),
            argument=[f"{name}={json.dumps(value)}" for name, value in self.arguments.items()],
            regime=self.regime,
            results=str(results),
            **more,
        )


NETS = "cudnn_sweep.workloads.nets"
MODELS: list[tuple[str, str, str, dict[str, Any], str]] = [
    ("resnet50", "torchvision.models:resnet50", "32x3x224x224", {}, "{cycle: {sizes: 4, step: 32}}"),
    ("mobilenet_v2", "torchvision.models:mobilenet_v2", "64x3x224x224", {}, "{cycle: {sizes: 4, step: 32}}"),
    ("convnext_tiny", "torchvision.models:convnext_tiny", "32x3x224x224", {}, "{cycle: {sizes: 4, step: 32}}"),
    ("vgg16", "torchvision.models:vgg16", "32x3x224x224", {}, "{cycle: {sizes: 4, step: 32}}"),
    ("unet", f"{NETS}.unet:UNet", "4x1x256x256", {}, "{cycle: {sizes: 4, step: 32}}"),
    ("unet3d", f"{NETS}.unet:UNet", "1x1x64x64x64", {"dims": 3}, "{cycle: {sizes: 3, step: 16}}"),
    ("wavenet", f"{NETS}.wavenet:WaveNet", "4x256x4096", {}, "{cycle: {sizes: 4, step: 512}}"),
    ("dcgan", f"{NETS}.dcgan:Generator", "128x100x1x1", {}, "{last_partial_batch: {full_batches: 7, last: 0.5}}"),
]  # fmt: skip
TINY: list[tuple[str, str, str, dict[str, Any], str]] = [
    ("unet", f"{NETS}.unet:UNet", "1x1x32x32", {"width": 2}, "{cycle: {sizes: 2, step: 16}}"),
    ("wavenet", f"{NETS}.wavenet:WaveNet", "1x8x64", {"classes": 8, "width": 4, "layers": 3}, "{cycle: {sizes: 2, step: 16}}"),
]  # fmt: skip


def cases(*, tiny: bool) -> list[Case]:
    """Starts alternate, and so do sides, in each of both kinds of start."""
    found: list[Case] = []
    for model in TINY if tiny else MODELS:
        for regime in (None, model[4]):
            number = len(found)
            found.append(
                Case(
                    name=f"{model[0]}-{'varying' if regime else 'fixed'}",
                    model=model[1],
                    input=model[2],
                    arguments=model[3],
                    regime=regime,
                    state="warm" if (number + number // 2) % 2 else "container",
                    side="above" if number // 4 % 2 else "below",
                )
            )
    return found


class Rows:
    """What is done of a case, a line of JSON each, in a file of its own: lanes write at once."""

    def __init__(self, folder: Path, case: str) -> None:
        self._case = case
        self._file = folder / "rows" / f"{case}.jsonl"

    def all(self) -> list[dict[str, Any]]:
        """A last line that was cut off is left out."""
        if not self._file.exists():
            return []
        found = []
        for line in self._file.read_text().splitlines():
            with suppress(ValueError):
                found.append(json.loads(line))
        return found

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [row for row in self.all() if row["kind"] == kind]

    def add(self, kind: str, **values: Any) -> None:
        row = {"kind": kind, "at": f"{datetime.now(UTC):%H:%M:%S}", **values}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a") as file:
            file.write(f"\n{json.dumps(row)}\n")  # after a line that was cut off, too
        shown = {name: value for name, value in row.items() if name != "answer"}
        print(json.dumps({"case": self._case, **shown}), flush=True)

    @property
    def lane(self) -> str | None:
        return next((row["lane"] for row in self.all() if row["kind"] == "lane"), None)

    @property
    def ends(self) -> bool:
        """There is nothing left to do."""
        return len(self.of("run")) >= 2 * RUNS or len(self.of("failed")) >= TRIES

    def set_aside(self) -> None:
        number = len(list(self._file.parent.glob(f"{self._file.name}.*")))
        self._file.rename(self._file.with_suffix(f".jsonl.{number}"))


@dataclass(frozen=True, kw_only=True)
class Lane:
    """One GPU and its cores, or some cores of a machine without a GPU."""

    name: str
    gpu: str | None
    cpus: frozenset[int]


def lanes_here(without_gpu: int) -> list[Lane]:
    """A lane a GPU, else so many."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    entries = None if visible is None else [each.strip() for each in visible.split(",")]
    listed = [
        gpu
        for gpu in listed_gpus()
        if entries is None or any(gpu.is_called(entry) for entry in entries)
    ]
    ours = sorted(os.sched_getaffinity(0))
    if listed:
        pinnings = [(gpu.uuid, pinning_of(gpu.uuid)) for gpu in listed]
        return [
            Lane(name=uuid, gpu=uuid, cpus=frozenset(ours) if pinning is None else pinning.cpus)
            for uuid, pinning in pinnings
        ]
    share = max(1, len(ours) // without_gpu)
    parts = [ours[number * share :][:share] or ours for number in range(without_gpu)]
    return [
        Lane(name=f"cpu-{number}", gpu=None, cpus=frozenset(part))
        for number, part in enumerate(parts)
    ]


class Queue:
    """Which case a lane takes: one that began there before one that is new; failed ones last."""

    def __init__(self, left: Sequence[Case], folder: Path) -> None:
        self._left = list(left)
        self._folder = folder
        self._lock = threading.Lock()

    def take(self, lane: Lane) -> Case | None:
        with self._lock:
            ranked = {}
            for place, case in enumerate(self._left):
                rows = Rows(self._folder, case.name)
                if rows.lane in (None, lane.name):
                    ranked[len(rows.of("failed")), rows.lane is None, place] = case
            if not ranked:
                return None
            case = ranked[min(ranked)]
            self._left.remove(case)
            return case

    def put_back(self, case: Case) -> None:
        with self._lock:
            self._left.append(case)


def answers(
    command: Sequence[str],
    variables: Mapping[str, str],
    log: TextIO,
    limit_s: float,
    on_line: Callable[[dict[str, Any]], None] | None,
) -> list[dict[str, Any]]:
    found = []
    with subprocess.Popen(
        command, env=variables, stdout=subprocess.PIPE, stderr=log, text=True, process_group=0
    ) as child:
        killer = threading.Timer(limit_s, os.killpg, (child.pid, signal.SIGKILL))
        killer.start()
        try:
            assert child.stdout is not None
            for line in child.stdout:
                if not line.startswith(ANSWER):
                    log.write(line)
                    continue
                found.append(json.loads(line.removeprefix(ANSWER)))
                if on_line is not None:
                    on_line(found[-1])
        finally:
            killer.cancel()
    if child.returncode:
        told = Path(log.name).read_text().splitlines()[-5:]
        raise CaseError(f"{command[2]} ended with {child.returncode}: {' / '.join(told)}")
    return found
