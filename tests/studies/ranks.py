"""What the ranks of one job choose, compute and wait for, beside what choice_stability predicts of them.

Each job is new processes, a GPU each: they train a network with DistributedDataParallel, or draw sizes.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from copy import deepcopy
from multiprocessing import get_context
from pathlib import Path
from random import Random
from statistics import fmean, median
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter
from typing import Annotated, Any, cast

import torch
import torch.distributed as dist
import typer
from torch import nn
from torch.backends import cudnn

from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.store.location import REFERENCE
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.find_workload import import_repeatably
from cudnn_sweep.workloads.hashes import content_hash
from cudnn_sweep.workloads.measuring.choice import read_choice
from cudnn_sweep.workloads.measuring.computed import fingerprint
from cudnn_sweep.workloads.measuring.device import find_device
from cudnn_sweep.workloads.measuring.device_time import Replays, time_replays
from cudnn_sweep.workloads.measuring.telemetry import Telemetry
from cudnn_sweep.workloads.models.steps import Source, make_module
from cudnn_sweep.workloads.precision import find_precision
from cudnn_sweep.workloads.problem import parse_sizes
from cudnn_sweep.workloads.records.row import BUNDLED
from cudnn_sweep.workloads.training.loss import MEAN_SQUARE, make_loss
from cudnn_sweep.workloads.workload import Context, TimedStep
from tests.studies.parts.command import SEED, run

NETS = "cudnn_sweep.workloads.nets."
VOLUMES = {"dims": 3, "width": 32}
CASES: list[tuple[str, dict[str, Any], str, str, str]] = [
    ("torchvision.models:resnet18", {}, "32x3x224x224", "tf32", "contiguous"),
    (NETS + "patch_embedding:PatchEmbedding", {}, "4096x3x2x14x14", "amp_bf16", "channels_last"),
    (NETS + "patch_embedding:PatchEmbedding", {}, "4096x3x2x14x14", "tf32", "contiguous"),
    (NETS + "speech:SpeechFeatures", {}, "8x1x160000", "amp_bf16", "contiguous"),
    (NETS + "unet:UNet", {}, "4x1x512x512", "tf32", "contiguous"),
    (NETS + "wavenet:WaveNet", {}, "4x256x16000", "amp_bf16", "contiguous"),
    ("torchvision.models:vgg16", {}, "32x3x224x224", "amp_bf16", "channels_last"),
    ("torchvision.models:resnet18", {}, "32x3x224x224", "amp_bf16", "channels_last"),
    (NETS + "darknet:Darknet53", {}, "16x3x416x416", "amp_bf16", "channels_last"),
    ("torchvision.models:convnext_tiny", {}, "32x3x224x224", "tf32", "contiguous"),
    (NETS + "unet:UNet", VOLUMES, "2x1x96x96x96", "tf32", "contiguous"),
    (NETS + "video_vae:VideoDecoder", {}, "1x16x2x32x32", "tf32", "contiguous"),
]
STEPS = 5  # of a job, before its ranks are examined
SIZES, SIZE_STEPS, ROUNDS = 8, 60, 12  # of a job whose ranks draw sizes for themselves
SEARCHED = 5  # times the median step: somebody searches
LIMIT_S = 120  # of a job
SPEC = MeasureSpec(warmup_s=0.1, warmup_limit_s=0.3, device_budget_s=0.3)
PREDICTED = """
select rank_agreement, rank_bits_agreement, straggler_cost
from choice_stability(of_ranks := {}, of_sweep_id := 'networks-*fixed')
where workload = '{}' and input_shape = '{}' and precision = '{}'
    and layout = '{}' and direction = 'training' and benchmark = {} and gpu = '{}'
"""


def train(rank: int, case: int, benchmark: bool) -> dict[str, Any]:
    """What one rank chose and computed, and the device time of its step without the others."""
    name, arguments, shape, precision, layout = CASES[case]
    cudnn.benchmark = benchmark
    context = Context(
        device=torch.device("cuda", rank),
        precision=find_precision(precision),
        layout=layout,
        direction="training",
        problem=None,
    )
    context.precision.apply()
    torch.manual_seed(SEED)
    net = context.place(make_module(name, cast(Source, import_repeatably(name)), arguments))
    sizes = parse_sizes(shape)
    inputs = context.random(sizes)
    loss_of = make_loss(MEAN_SQUARE)

    def step(model: nn.Module) -> None:
        model.zero_grad()
        with context.region():
            loss = loss_of(model(inputs))
        loss.backward()

    alone, job = deepcopy(net), nn.parallel.DistributedDataParallel(net)
    for _ in range(STEPS):
        step(job)
    torch.manual_seed(SEED)
    step(alone)
    bits = [fingerprint(each.grad) for each in alone.parameters() if each.grad is not None]
    own = TimedStep(prepare=lambda _: None, run=lambda _: step(alone))
    choice, _ = read_choice(own, sizes, find_device())
    dist.barrier()
    timed = time_replays(Replays([lambda: step(alone)]), SPEC, Telemetry(None))
    return {
        "kernels": choice.kernels_hash,
        "bits": content_hash(bits),
        "device_ms": timed.median_ms,
    }


def draw_sizes(rank: int) -> list[int]:
    """How many steps of each round wait for a search, this rank's or another's."""
    cudnn.benchmark = True
    net = nn.Sequential(*(nn.Conv2d(64, 64, 3, padding=1) for _ in range(4))).cuda()
    stalls = []
    for batch in range(1, ROUNDS + 2):  # the first pays one-time costs
        draws = Random(f"{SEED} {rank} {batch}")
        times = []
        for _ in range(SIZE_STEPS):
            size = 32 + 16 * draws.randrange(SIZES)
            images = torch.randn(batch, 64, size, size, device="cuda")
            torch.cuda.synchronize()
            dist.barrier()
            started = perf_counter()
            with torch.no_grad():
                net(images)
            torch.cuda.synchronize()
            dist.barrier()
            times.append(perf_counter() - started)
        stalls.append(sum(each > SEARCHED * median(times) for each in times))
    return stalls[1:]


def _rank(task: Callable[..., Any], rank: int, ranks: int, folder: str, *of: Any) -> None:
    torch.cuda.set_device(rank)
    store = f"file://{folder}/store"
    dist.init_process_group("nccl", init_method=store, rank=rank, world_size=ranks)
    Path(folder, str(rank)).write_text(json.dumps(task(rank, *of)))
    dist.destroy_process_group()


def job(task: Callable[..., Any], ranks: int, *of: Any) -> list[Any]:
    """What each rank of a new job answers."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["torch", "torchvision.models"])
    with TemporaryDirectory() as folder:
        made = [
            context.Process(target=_rank, args=(task, rank, ranks, folder, *of))
            for rank in range(ranks)
        ]
        for process in made:
            process.start()
        for process in made:
            process.join(LIMIT_S)
        if any(process.exitcode != 0 for process in made):
            for process in made:
                process.kill()
            raise RuntimeError(f"a rank failed: exit codes {[each.exitcode for each in made]}")
        return [json.loads(Path(folder, str(rank)).read_text()) for rank in range(ranks)]


def measure(kept: Path, runs: int, until: float) -> list[dict[str, Any]]:
    """Kept rows, and those of the jobs that were still missing."""
    rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    wanted: list[tuple[int | None, bool]] = [(None, True)]
    wanted += [(case, False) for case in range(len(CASES))]
    wanted += [(case, True) for _ in range(runs) for case in range(len(CASES))]
    for done in [(row["case"], row["benchmark"]) for row in rows]:
        if done in wanted:
            wanted.remove(done)
    for case, benchmark in wanted:
        if monotonic() > until:
            break
        count, gpu = torch.cuda.device_count(), torch.cuda.get_device_name()
        found = job(draw_sizes, count) if case is None else job(train, count, case, benchmark)
        rows.append({"case": case, "benchmark": benchmark, "gpu": gpu, "ranks": found})
        with kept.open("a") as file:
            file.write(json.dumps(rows[-1]) + "\n")
    return rows


def trained(rows: list[dict[str, Any]]) -> Iterator[list[object]]:
    """A line for each network and setting of benchmark: what its jobs did, and what was predicted."""
    jobs = defaultdict(list)
    for row in rows:
        if row["case"] is not None:
            jobs[row["gpu"], row["case"], row["benchmark"]].append(row["ranks"])
    with open_database(open_store(str(REFERENCE)), None) as database:
        for (gpu, case, benchmark), found in sorted(jobs.items()):
            workload, _, *labels = CASES[case]
            of = [workload.removeprefix(BUNDLED), *labels, benchmark, gpu]
            (predicted,) = database.query(PREDICTED.format(len(found[0]), *of)).to_pylist()
            times = [[each["device_ms"] for each in ranks] for ranks in found]
            yield [
                f"{workload.rpartition(':')[2]} {' '.join(labels)}",
                "on" if benchmark else "off",
                len(found),
                fmean(len({each["kernels"] for each in ranks}) == 1 for ranks in found),
                predicted["rank_agreement"],
                fmean(len({each["bits"] for each in ranks}) == 1 for ranks in found),
                predicted["rank_bits_agreement"],
                fmean(max(ranks) / fmean(ranks) - 1 for ranks in times),
                predicted["straggler_cost"],
            ]


def ranks(
    kept: Annotated[Path, typer.Argument(help="Rows so far, one JSON a line: they are kept.")],
    runs: Annotated[int, typer.Option(min=1, help="Jobs of a network with benchmark on.")] = 4,
    minutes: Annotated[float, typer.Option(min=0, help="Start no job after so long.")] = 60,
) -> None:
    """Compare jobs on all GPUs of this host with what is predicted of their ranks (9 minutes)."""
    rows = measure(kept, runs, monotonic() + 60 * minutes)
    names = "same kernels", "same bits", "straggler cost"
    typer.echo(f"network, benchmark, jobs; seen and predicted: {', '.join(names)}")
    line = "{:58} {:4}{:3} {:6.2f} {:6.2f} {:6.2f} {:6.2f} {:8.4f} {:8.4f}"
    for each in trained(rows):
        typer.echo(line.format(*each))
    for row in rows:
        if row["case"] is None:
            count = len(row["ranks"])
            met = [1 - (1 - (1 - 1 / SIZES) ** step) ** count for step in range(SIZE_STEPS)]
            waits = [fmean(stalls) for stalls in row["ranks"]]
            typer.echo(f"steps that wait for a search, each rank: {waits}; predicted {sum(met)}")


if __name__ == "__main__":
    run(ranks)
