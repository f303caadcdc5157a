"""Check `sweep advise` by doing it both ways: sixteen cases, in parts, on one GPU.

    python docs/advice.py measure --results DIR [--seconds 500] [--only NAME]   # again until it says: all done
    python docs/advice.py table --results DIR

A case is a model, fixed or varying sizes, and a start: in a new container (CUDA's compute cache is empty) or on a
warm machine. `measure` gives each case 60 s of advice. Then it chooses a number of steps for which a run
takes 10 to 20 s, below the predicted break-even point or above it, and asks the store what it predicts of three
runs each way. Then it makes these runs: fresh processes with a plain loop, off and on alternated. What the
loop is timed from: CUDA's context and all steps, to a synchronise at the end; imports, and building the model and
its inputs, are left out.

Every answer and run is a line of DIR/rows.jsonl; what stands there is not done again. `--tiny` has small models
that a CPU runs in seconds, where flags do nothing and ratios are about 1.
"""

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from statistics import fmean
from time import monotonic, perf_counter
from typing import Any

from rich.console import Console

from cudnn_sweep.orchestrator.launching.advising import AdviseOptions, advise
from cudnn_sweep.orchestrator.launching.one_step import StepOptions, suite_of
from cudnn_sweep.orchestrator.planning.job import Job
from cudnn_sweep.orchestrator.running.this_machine import ThisMachine

RUNS = 3  # each way
ADVICE_S = 60.0
ADVICE_AT_MOST_S = 90.0  # with a block that runs when time is up
SHORTEST_S, LONGEST_S = 10.0, 20.0
TINY_SHORTEST_S, TINY_LONGEST_S = 0.5, 1.0
BELOW, ABOVE = 0.6, 1.7  # times the break-even point
OFF, ON = "off", "on"


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

    def step(self, results: Path) -> StepOptions:
        return StepOptions(
            workload=self.model,
            input=(self.input,),
            arguments=self.arguments,
            regime=self.regime,
            precision="tf32",
            layout="contiguous",
            direction=None,
            results=str(results),
            typed_results=str(results),
            program="sweep",
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
    """What is done, a line of JSON each."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "rows.jsonl"

    def all(self) -> list[dict[str, Any]]:
        if not self._file.exists():
            return []
        return [json.loads(line) for line in self._file.read_text().splitlines() if line]

    def of(self, case: str, kind: str) -> list[dict[str, Any]]:
        return [row for row in self.all() if (row["case"], row["kind"]) == (case, kind)]

    def add(self, case: str, kind: str, **values: Any) -> dict[str, Any]:
        row = {"case": case, "kind": kind, **values}
        with self._file.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(
            json.dumps({name: value for name, value in row.items() if name != "answer"}), flush=True
        )
        return row


def measure(asked: argparse.Namespace) -> int:
    """As much as there is time for; 0 once all is done, 3 where some is left."""
    folder: Path = asked.results.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    rows, end = Rows(folder), monotonic() + asked.seconds
    for case in cases(tiny=asked.tiny):
        if asked.only and asked.only not in case.name:
            continue
        if not _measure_case(case, rows, folder, end, asked):
            print(f"{case.name}: out of time; run this again", flush=True)
            return 3
    print("all done", flush=True)
    return 0


def _measure_case(
    case: Case, rows: Rows, folder: Path, end: float, asked: argparse.Namespace
) -> bool:
    if rows.of(case.name, "failed"):
        return True
    if not rows.of(case.name, "advice"):
        if monotonic() + (ADVICE_AT_MOST_S if not asked.tiny else 40) > end:
            return False
        _ask(case, rows, folder, asked)
    told = rows.of(case.name, "advice")
    answer = told[0]["answer"]
    if answer["asked"] is None or answer["asked"]["ratio"] is None:
        rows.add(case.name, "failed", why=answer["messages"] or "advise compared nothing")
        return True
    if not rows.of(case.name, "steps"):
        chosen, side = steps_of(case, answer["asked"], tiny=asked.tiny)
        rows.add(case.name, "steps", steps=chosen, side=side)
    steps = rows.of(case.name, "steps")[0]["steps"]
    if not rows.of(case.name, "prediction"):
        told_of = _child(case, folder, asked, "predict", "--from-store", "--steps", str(steps))
        rows.add(case.name, "prediction", answer=told_of)
    return _run_both_ways(case, steps, rows, folder, end, asked)


def _ask(case: Case, rows: Rows, folder: Path, asked: argparse.Namespace) -> None:
    began = monotonic()
    longest_s = TINY_LONGEST_S if asked.tiny else (SHORTEST_S + LONGEST_S) / 2
    answer = _child(case, folder, asked, "predict", "--hours", str(longest_s / 3600))
    rows.add(case.name, "advice", seconds=monotonic() - began, answer=answer)


def steps_of(case: Case, told: dict[str, Any], *, tiny: bool) -> tuple[int, str]:
    """So many that a run takes 10 to 20 s; below or above the break-even point as the case has it, where both
    fit, else on the side that does. `none` where there is no such point.
    """
    shortest_s, longest_s = (TINY_SHORTEST_S, TINY_LONGEST_S) if tiny else (SHORTEST_S, LONGEST_S)
    slower_ms = max(told["baseline_ms"], told["candidate_ms"])
    start_s = told["baseline_s"] - told["job_steps"] * told["baseline_ms"] / 1000
    least, most = (
        max(1, int((seconds - max(start_s, 0)) * 1000 / slower_ms))
        for seconds in (shortest_s, longest_s)
    )
    level = told["break_even_steps"]
    if level is None:
        return (least + most) // 2, "none"
    sides = {"below": BELOW * level >= least, "above": ABOVE * level <= most}
    side = case.side if sides[case.side] else next((each for each in sides if sides[each]), "near")
    if side == "near":
        return (least + most) // 2, side
    wanted = BELOW * level if side == "below" else ABOVE * level
    return int(min(max(wanted, least), most)), side


def _run_both_ways(
    case: Case, steps: int, rows: Rows, folder: Path, end: float, asked: argparse.Namespace
) -> bool:
    done = len(rows.of(case.name, "run"))
    pairs = [(OFF, ON) if number % 2 == 0 else (ON, OFF) for number in range(RUNS)]
    order = [(number, setting) for number, pair in enumerate(pairs) for setting in pair]
    if case.state == "warm" and done < len(order):
        for setting in (OFF, ON):
            if not (folder / "caches" / case.name / setting).exists():
                _loop(case, setting, None, folder, asked)  # what is compiled stays
    for number, setting in order[done:]:
        longest_s = 4.0 if asked.tiny else 2.5 * LONGEST_S  # with its imports
        if monotonic() + longest_s > end:
            return False
        found = _loop(case, setting, steps, folder, asked)
        rows.add(case.name, "run", number=number, setting=setting, **found)
    return True


def _loop(
    case: Case, setting: str, steps: int | None, folder: Path, asked: argparse.Namespace
) -> dict[str, Any]:
    """`steps` None: each shape once, to fill the cache."""
    cache = folder / "caches" / case.name / setting
    if case.state == "container":
        shutil.rmtree(cache, ignore_errors=True)
    cache.mkdir(parents=True, exist_ok=True)
    words = ["--setting", setting, "--steps", str(steps or 0)]
    words += ["--cpus", str(asked.cpus)] if asked.cpus else []
    return _child(case, folder, asked, "loop", *words, CUDA_CACHE_PATH=str(cache))


def _child(
    case: Case, folder: Path, asked: argparse.Namespace, part: str, *words: str, **variables: str
) -> dict[str, Any]:
    """The JSON that a fresh process of this script prints last."""
    command = [
        sys.executable,
        __file__,
        part,
        "--results",
        str(folder),
        "--case",
        case.name,
        *words,
    ]
    ran = subprocess.run(
        [*command, "--tiny"] if asked.tiny else command,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {ran.returncode}:\n{ran.stdout[-2000:]}")
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def predict(asked: argparse.Namespace) -> int:
    """The child that asks: the answer as JSON on one line."""
    case = _named(asked)
    job = Job(
        steps=asked.steps or 1,
        hours=None if asked.steps else asked.hours,
        state=case.state,
        runs=RUNS,
    )
    options = AdviseOptions(
        step=case.step(asked.results / case.name),
        job=job,
        minutes=0.3 if asked.tiny else ADVICE_S / 60,
        format="json",
        from_store=asked.from_store,
        on_any_device=asked.tiny,
    )
    out = Console(file=io.StringIO(), markup=False)
    code = advise(options, Console(stderr=True, markup=False), ThisMachine(), out)
    assert isinstance(out.file, io.StringIO)
    print(json.dumps({**json.loads(out.file.getvalue()), "code": code}), flush=True)
    os._exit(0)  # as the command line does after Ray Tune


def loop(asked: argparse.Namespace) -> int:
    """The child that runs: a plain training loop, timed."""
    import torch

    from cudnn_sweep.workloads.cells.expand import expand_cells
    from cudnn_sweep.workloads.find_workload import find_workload
    from cudnn_sweep.workloads.measuring.device import find_device
    from cudnn_sweep.workloads.measuring.process_setup import setting_of
    from cudnn_sweep.workloads.precision import find_precision
    from cudnn_sweep.workloads.survey import workload_facts

    if asked.cpus:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: asked.cpus])
    case = _named(asked)
    suite = suite_of(case.step(asked.results), 1)
    (cell,) = expand_cells(suite, workload_facts([case.model]), device="cuda", gpu="here")
    torch.backends.cudnn.benchmark = asked.setting == ON
    find_precision(cell.precision).apply()
    workload = find_workload(cell.workload)
    began = perf_counter()
    device = find_device()
    torch.ones(1, device=device.torch).sum().item()
    context_s = perf_counter() - began
    step = workload.step(setting_of(cell, device))
    shapes = cell.shapes().period(cell.input_shape)
    assert shapes is not None, "every case is a closed loop"
    made = {shape: step.prepare(shape) for shape in dict.fromkeys(shapes)}
    order = cycle([made[shape] for shape in shapes]) if asked.steps else iter(made.values())
    device.synchronise()
    began = perf_counter()
    for inputs in islice(order, asked.steps or None):
        step.run(inputs)
    device.synchronise()
    loop_s = perf_counter() - began
    print(json.dumps({"seconds": context_s + loop_s, "context_s": context_s}), flush=True)
    return 0


def _named(asked: argparse.Namespace) -> Case:
    return next(case for case in cases(tiny=asked.tiny) if case.name == asked.case)


COLUMNS = (
    "case", "start", "steps", "side", "advice", "predicted on/off", "actual on/off", "inside",
    "right", "run", "advice took",
)  # fmt: skip


def table(asked: argparse.Namespace) -> int:
    rows = Rows(asked.results.resolve())
    done = list(_compared(cases(tiny=asked.tiny), rows))
    print(f"| {' | '.join(COLUMNS)} |")
    print("|" + "---|" * len(COLUMNS))
    for line in done:
        print(f"| {' | '.join(map(str, line['cells']))} |")
    if done:
        inside = sum(line["inside"] for line in done)
        narrow = sum(line["half_width"] <= 0.10 for line in done)
        right = sum(line["right"] for line in done)
        print(
            f"\n{inside} of {len(done)} actual ratios are inside the 95% interval; {narrow} intervals are no "
            f"wider than ±10%; {right} of {len(done)} recommendations are right."
        )
    return 0


def _compared(known: Sequence[Case], rows: Rows) -> Iterator[dict[str, Any]]:
    for case in known:
        runs = rows.of(case.name, "run")
        if len(runs) < 2 * RUNS:
            continue
        told = rows.of(case.name, "prediction")[0]["answer"]["asked"]
        chosen = rows.of(case.name, "steps")[0]
        off_s, on_s = (
            fmean(run["seconds"] for run in runs if run["setting"] == setting)
            for setting in (OFF, ON)
        )
        actual = on_s / off_s
        low, high = told["ratio_low"], told["ratio_high"]
        inside = low is not None and low <= actual <= high
        half_width = (high - low) / (2 * told["ratio"]) if low is not None else float("inf")
        right = is_right(told["advice"], actual)
        shown = "?" if low is None else f"{told['ratio']:.3f} ({low:.3f}–{high:.3f})"
        yield {
            "inside": inside,
            "half_width": half_width,
            "right": right,
            "cells": [
                case.name, told["start"], chosen["steps"], chosen["side"], told["advice"], shown,
                f"{actual:.3f}", "yes" if inside else "no", "yes" if right else "no",
                f"{off_s:.1f} s", f"{rows.of(case.name, 'advice')[0]['seconds']:.0f} s",
            ],
        }  # fmt: skip


def is_right(advice: str, actual: float) -> bool:
    """The sign where the settings differ by more than 3%; no difference where by less than 1%."""
    if actual < 1 / 1.03:
        return advice == ON
    if actual > 1.03:
        return advice in (OFF, "does not fit", "fails")
    if abs(actual - 1) < 0.01:
        return advice == "no difference"
    return True


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = {"measure": measure, "table": table, "predict": predict, "loop": loop}
    parser.add_argument("part", choices=parts)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument(
        "--seconds", type=float, default=500.0, help="nothing begins that ends later"
    )
    parser.add_argument("--only", help="cases with this in their name")
    parser.add_argument("--tiny", action="store_true", help="small models, for a CPU")
    parser.add_argument("--cpus", type=int, help="that a run may use; all without")
    parser.add_argument("--case")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--hours", type=float)
    parser.add_argument("--setting", choices=(OFF, ON))
    parser.add_argument("--from-store", action="store_true")
    asked = parser.parse_args()
    asked.results = asked.results.resolve()
    return parts[asked.part](asked)


if __name__ == "__main__":
    sys.exit(main())
