"""Check `sweep advise` by doing it both ways: sixteen cases, a case a GPU at a time.

    make study advice ARGS="measure --results DIR [--seconds 540] [--only NAME]"   # again until it says: all done
    make study advice ARGS="table --results DIR"

A case is a model, fixed or varying sizes, and a start: in a new container (CUDA's compute cache is empty) or on a
warm machine. `measure` gives each case 60 s of advice. Then it chooses a number of steps for which a run
takes 10 to 20 s, below the predicted break-even point or above it, and asks the store what it predicts of three
runs each way. Then it makes these runs: fresh processes with a plain loop, off and on alternated. What the
loop is timed from: CUDA's context and all steps, to a synchronise at the end; imports, and building the model and
its inputs, are left out: the processes are forked from one that has imported torch and never touched CUDA.

Each GPU that CUDA_VISIBLE_DEVICES shows has a lane: one case at a time, with this GPU alone and an equal share of the
cores. A case stays on its GPU. Every answer and run is a line of DIR/rows/CASE.jsonl; what stands there is not done
again. What a case prints is in DIR/logs. A case that fails ends no other; the next call tries it once more, last.
`--tiny` has small models that a CPU runs in seconds, where flags do nothing and ratios are about 1.
"""

import argparse
import json
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from itertools import cycle, islice
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

from filelock import FileLock, Timeout
from rich.console import Console

from cudnn_sweep.analysis.answers.as_json import to_json
from cudnn_sweep.orchestrator.process.linux import die_with_parent
from cudnn_sweep.orchestrator.process.server import IMPORTED_BY_TORCH_LATE
from cudnn_sweep.orchestrator.running.run_sweep import run_sweep
from cudnn_sweep.orchestrator.running.this_machine import ThisMachine
from cudnn_sweep.orchestrator.steps.advice_text import answer_of
from cudnn_sweep.orchestrator.steps.advising import SUITE, advise, answered_of
from cudnn_sweep.orchestrator.steps.one_step import plan_step, suite_of, suite_to_compare
from cudnn_sweep.workloads.cells.suite import WithoutGpu
from tests.studies.parts.advice_cases import (
    ANSWER,
    OFF,
    ON,
    RUNS,
    Case,
    CaseError,
    Lane,
    Queue,
    Rows,
    answers,
    cases,
    lanes_here,
)
from tests.studies.parts.advice_table import table

ADVICE_S = 60.0
ADVICE_AT_MOST_S = 100.0  # with a block that runs when time is up
SHORTEST_S, LONGEST_S = 10.0, 20.0
NEAR_SHORTEST = 1.15  # a prediction of 10 s may turn out 9
RUN_AT_MOST_S = 35.0  # with what fills a cache before it
KILL_AFTER_S = 30.0  # of a child, after the time of the call
TINY_ADVICE_S, TINY_ADVICE_AT_MOST_S = 20.0, 150.0
TINY_SHORTEST_S, TINY_LONGEST_S, TINY_RUN_AT_MOST_S = 0.5, 1.0, 5.0
BELOW, ABOVE = 0.6, 1.7  # times the break-even point


def measure(asked: argparse.Namespace) -> int:
    """As much as there is time for; 0 once all is done, 3 where some is left."""
    folder: Path = asked.results
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / ".lock", timeout=0):
            return _measure_all(folder, asked)
    except Timeout:
        raise SystemExit(f"{folder}: another `measure` is at work there") from None


def _measure_all(folder: Path, asked: argparse.Namespace) -> int:
    end, lanes = monotonic() + asked.seconds, lanes_here(asked.lanes)
    for lane in lanes:
        print(f"lane {lane.name}: CPUs {sorted(lane.cpus)}", flush=True)
    wanted = [case for case in cases(tiny=asked.tiny) if not asked.only or asked.only in case.name]
    for case in wanted:
        rows = Rows(folder, case.name)
        if not rows.ends and rows.lane not in (None, *(lane.name for lane in lanes)):
            print(f"{case.name}: began on {rows.lane}, which is not here; it begins again")
            rows.set_aside()
    queue = Queue([case for case in wanted if not Rows(folder, case.name).ends], folder)
    with ThreadPoolExecutor(len(lanes)) as pool:
        list(pool.map(lambda lane: _work(lane, queue, folder, end, asked), lanes))
    left = [case.name for case in wanted if not Rows(folder, case.name).ends]
    print(f"left: {', '.join(left)}; run this again" if left else "all done", flush=True)
    return 3 if left else 0


def _work(lane: Lane, queue: Queue, folder: Path, end: float, asked: argparse.Namespace) -> None:
    os.sched_setaffinity(0, lane.cpus)  # of this thread, and of what it starts
    while (case := queue.take(lane)) is not None:
        rows = Rows(folder, case.name)
        try:
            if rows.lane is None:
                rows.add("lane", lane=lane.name)
            if not CaseRun(case, rows, lane, folder, end, asked).go_on():
                return
        except Exception as error:  # noqa: BLE001 - the other cases go on
            if monotonic() > end:
                return
            rows.add("failed", why=f"{type(error).__name__}: {error}")
            if not rows.ends:
                queue.put_back(case)


class CaseRun:
    """One case on its lane, from where it stands."""

    def __init__(
        self,
        case: Case,
        rows: Rows,
        lane: Lane,
        folder: Path,
        end: float,
        asked: argparse.Namespace,
    ) -> None:
        self._case, self._rows, self._lane = case, rows, lane
        self._folder, self._end, self._asked = folder, end, asked

    def go_on(self) -> bool:
        """False where there is no time for the next part."""
        rows = self._rows
        if not rows.of("advice"):
            if (
                monotonic() + (TINY_ADVICE_AT_MOST_S if self._asked.tiny else ADVICE_AT_MOST_S)
                > self._end
            ):
                return False
            self._ask()
        answer = rows.of("advice")[-1]["answer"]
        if answer["asked"] is None or answer["asked"]["ratio"] is None:
            raise CaseError(f"advise compared nothing: {answer['messages']}")
        if not rows.of("steps"):
            chosen, side = steps_of(self._case, answer["asked"], tiny=self._asked.tiny)
            rows.add("steps", steps=chosen, side=side)
        steps = rows.of("steps")[-1]["steps"]
        if not rows.of("prediction"):
            (told,) = self._child("predict", "--from-store", "--steps", str(steps))
            rows.add("prediction", answer=told)
        return self._run_both_ways(steps)

    def _ask(self) -> None:
        began = monotonic()
        longest_s = TINY_LONGEST_S if self._asked.tiny else (SHORTEST_S + LONGEST_S) / 2
        (answer,) = self._child("predict", "--hours", str(longest_s / 3600))
        self._rows.add("advice", seconds=monotonic() - began, answer=answer)

    def _run_both_ways(self, steps: int) -> bool:
        pairs = [(OFF, ON) if number % 2 == 0 else (ON, OFF) for number in range(RUNS)]
        order = [(number, setting) for number, pair in enumerate(pairs) for setting in pair]
        left = order[len(self._rows.of("run")) :]
        left_s = self._end - monotonic()
        if left and left_s < self._run_at_most_s:
            return False
        settings = ",".join(setting for _, setting in left)
        words = ["--steps", str(steps), "--plan", settings, "--seconds", str(left_s)]
        if self._asked.cpus:
            words += ["--cpus", str(self._asked.cpus)]
        runs = self._child("loop", *words, on_line=self._add_run(left)) if left else []
        if len(runs) < len(left):
            return False
        shutil.rmtree(_caches(self._folder, self._case), ignore_errors=True)
        return True

    def _add_run(self, left: Sequence[tuple[int, str]]) -> Callable[[dict[str, Any]], None]:
        numbers = iter(left)

        def add(found: dict[str, Any]) -> None:
            number, setting = next(numbers)
            assert found["setting"] == setting
            self._rows.add("run", number=number, **found)

        return add

    def _child(
        self, part: str, *words: str, on_line: Callable[[dict[str, Any]], None] | None = None
    ) -> list[dict[str, Any]]:
        """What a fresh process of this script answers, each as it comes. Raises CaseError."""
        command = [sys.executable, __file__, part, "--results", str(self._folder)]
        command += ["--case", self._case.name, *words]
        command += ["--tiny"] if self._asked.tiny else []
        variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # it forks: numpy needs no threads
        if self._lane.gpu is not None:
            variables["CUDA_VISIBLE_DEVICES"] = self._lane.gpu
        logs = self._folder / "logs"
        logs.mkdir(exist_ok=True)
        limit_s = max(self._end - monotonic(), 0) + KILL_AFTER_S
        with (logs / f"{self._case.name}.log").open("a") as log:
            print(f"\n$ {' '.join(command)}", file=log, flush=True)
            return answers(command, variables, log, limit_s, on_line)

    @property
    def _run_at_most_s(self) -> float:
        return TINY_RUN_AT_MOST_S if self._asked.tiny else RUN_AT_MOST_S


def _answer(told: Mapping[str, Any]) -> None:
    print(f"{ANSWER}{json.dumps(told)}", flush=True)


def predict(asked: argparse.Namespace) -> int:
    """The child that asks."""
    die_with_parent()
    case = _named(asked)
    options = case.options(
        asked.results / "stores" / case.name,
        steps=asked.steps or 1,
        hours=None if asked.steps else asked.hours,
        state=case.state,
        runs=RUNS,
        minutes=TINY_ADVICE_S / 60 if asked.tiny else ADVICE_S / 60,
        json=True,
        from_store=asked.from_store,
    )
    place = ThisMachine(wait_s=TINY_ADVICE_AT_MOST_S if asked.tiny else 0)  # lanes share a CPU
    console = Console(stderr=True, markup=False)
    if asked.tiny and not asked.from_store:  # a CPU's flags do nothing: what follows is tried out
        suite = suite_to_compare(options, None).model_copy(update={"without_gpu": WithoutGpu()})
        planned = plan_step(options, suite, place.look(suite), suite_name=SUITE, job=options.job)
        ran = run_sweep(planned, place, console)
        answer = answer_of(answered_of(options, ran.store, ran.session.sweep_id))
    else:
        answer = advise(options, console, place)
    _answer({**json.loads(to_json(answer)), "code": answer.code})
    os._exit(0)  # as the command line does after Ray Tune


def loop(asked: argparse.Namespace) -> int:
    """The child that runs: a process for each setting of the plan, forked from this one."""
    die_with_parent()
    end, case = monotonic() + asked.seconds, _named(asked)
    if asked.cpus:  # before torch counts them
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: asked.cpus])
    for module in (*IMPORTED_BY_TORCH_LATE, case.model.partition(":")[0]):
        with suppress(ModuleNotFoundError):  # not every release of torch has each
            import_module(module)
    at_most_s = TINY_RUN_AT_MOST_S if asked.tiny else RUN_AT_MOST_S
    for setting in asked.plan.split(","):
        if monotonic() + at_most_s > end:
            break
        cache = _caches(asked.results, case) / setting
        filled = cache.with_name(f"{setting}.filled")
        if case.state == "container":
            shutil.rmtree(cache, ignore_errors=True)
        elif not filled.exists():
            shutil.rmtree(cache, ignore_errors=True)
            _forked(case, setting, 0, cache, asked)
            filled.touch()
        _answer({"setting": setting, **_forked(case, setting, asked.steps, cache, asked)})
    return 0


def _forked(
    case: Case, setting: str, steps: int, cache: Path, asked: argparse.Namespace
) -> dict[str, float]:
    """A run in a process of its own; what it prints last."""
    cache.mkdir(parents=True, exist_ok=True)
    answers, answer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            die_with_parent()
            os.environ["CUDA_CACHE_PATH"] = str(cache)
            os.write(answer, json.dumps(_run(case, setting, steps, asked)).encode())
        except BaseException:  # noqa: BLE001 - nothing of this process goes on
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    os.close(answer)
    with open(answers, "rb") as file:
        told = file.read()
    _, status = os.waitpid(pid, 0)
    if status:
        raise SystemExit(f"{case.name}, {setting}: the run ended with status {status}")
    found: dict[str, float] = json.loads(told)
    return found


def _run(case: Case, setting: str, steps: int, asked: argparse.Namespace) -> dict[str, float]:
    """A plain training loop, timed. No `steps`: each shape once, to fill the cache."""
    import torch

    from cudnn_sweep.workloads.cells.expand import expand_cells
    from cudnn_sweep.workloads.find_workload import find_workload
    from cudnn_sweep.workloads.measuring.device import find_device
    from cudnn_sweep.workloads.measuring.process_setup import context_of
    from cudnn_sweep.workloads.precision import find_precision
    from cudnn_sweep.workloads.survey import workload_facts

    suite = suite_of(case.options(asked.results), 1)
    (cell,) = expand_cells(suite, workload_facts([case.model]), device="cuda", gpu="here")
    torch.backends.cudnn.benchmark = setting == ON
    find_precision(cell.precision).apply()
    workload = find_workload(cell.workload)
    began = perf_counter()
    device = find_device()
    torch.ones(1, device=device.torch).sum().item()
    context_s = perf_counter() - began
    step = workload.step(context_of(cell, device))
    shapes = cell.shapes().period(cell.input_shape)
    assert shapes is not None, "every case is a closed loop"
    made = {shape: step.prepare(shape) for shape in dict.fromkeys(shapes)}
    order = cycle([made[shape] for shape in shapes]) if steps else iter(made.values())
    device.synchronise()
    began = perf_counter()
    for inputs in islice(order, steps or None):
        step.run(inputs)
    device.synchronise()
    loop_s = perf_counter() - began
    return {"seconds": context_s + loop_s, "context_s": context_s}


def _caches(folder: Path, case: Case) -> Path:
    return folder / "caches" / case.name


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
    level, short = told["break_even_steps"], int(NEAR_SHORTEST * least)
    if level is None:
        return short, "none"
    sides = {"below": BELOW * level >= least, "above": ABOVE * level <= most}
    side = case.side if sides[case.side] else next((each for each in sides if sides[each]), "near")
    wanted = {"below": min(short, BELOW * level), "above": max(short, ABOVE * level), "near": short}
    return int(min(wanted[side], most)), side


def _named(asked: argparse.Namespace) -> Case:
    return next(case for case in cases(tiny=asked.tiny) if case.name == asked.case)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = {"measure": measure, "table": table, "predict": predict, "loop": loop}
    parser.add_argument("part", choices=parts)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument(
        "--seconds", type=float, default=540.0, help="nothing begins that ends later"
    )
    parser.add_argument("--only", help="cases with this in their name")
    parser.add_argument("--tiny", action="store_true", help="small models, for a CPU")
    parser.add_argument("--cpus", type=int, help="that a run may use; all without")
    parser.add_argument("--case")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--hours", type=float)
    parser.add_argument("--plan", help="off,on,...: the settings of the runs")
    parser.add_argument("--lanes", type=int, default=1, help="of a machine without a GPU")
    parser.add_argument("--from-store", action="store_true")
    asked = parser.parse_args()
    asked.results = asked.results.resolve()
    return parts[asked.part](asked)


if __name__ == "__main__":
    sys.exit(main())
