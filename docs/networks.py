"""What README and docs/networks.md say of whole networks, from the results installed with the package.

make docs        # writes their blocks, and docs/networks/{light,dark}.svg
"""

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import groupby, product
from math import log
from pathlib import Path
from textwrap import fill

import altair as alt
import vl_convert

from cudnn_sweep.analysis.answers.text import to_text
from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.report.figures.palette import COLOURS
from cudnn_sweep.analysis.results.advice import (
    DOES_NOT_FIT,
    FAILS,
    NO_DIFFERENCE,
    UNDECIDED,
    Advice,
)
from cudnn_sweep.analysis.results.min_effect import MIN_EFFECT
from cudnn_sweep.analysis.results.verdicts import BreakEven, Verdict, payback
from cudnn_sweep.analysis.store.location import REFERENCE
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.analysis.words import cudnn_version, interval, percent, ratio
from cudnn_sweep.orchestrator.steps.advice_text import answer_of
from cudnn_sweep.orchestrator.steps.racing import stored_race
from cudnn_sweep.orchestrator.steps.step_options import AdviseOptions
from cudnn_sweep.workloads.hashes import content_hash

WIDTH = 118
DOCS = Path(__file__).resolve().parent
GPUS = {"NVIDIA H200": "H200", "NVIDIA H100 80GB HBM3": "H100"}
VERDICTS = {"helps": "helps", "equivalent": "no difference of 3%", "hurts": "hurts"}
CPU, NEAR, SCATTER, KERNELS = "CPU", "near 3%", "scatter", "kernels"
REASONS = {
    CPU: "the loop waits for the CPU, whose time differs from process to process",
    NEAR: "the ratio is within 1%, and within its interval, of a difference of 3%",
    SCATTER: "processes differ though the GPU is full",
    KERNELS: "processes chose kernels of different speed, by device time or within one launch",
}
"""Why a cell is not decided."""
MARGIN = log(1 + MIN_EFFECT)
NEAREST = log(1.01)  # to the margin: what is further off is not near, however wide its interval
NOT_MEASURED = "not measured"  # no process started in this state
SHORT = {"helps": "**helps**", "equivalent": "=", "hurts": "**hurts**"}
SETTINGS = {
    "tf32 contiguous": "TF32",
    "amp_bf16 channels_last": "bf16, channels_last",
    "amp_bf16 contiguous": "bf16",
}
NETWORKS = {
    "torchvision.models:resnet18": "ResNet-18",
    "torchvision.models:resnet50": "ResNet-50",
    "torchvision.models:vgg16": "VGG-16",
    "torchvision.models:mobilenet_v2": "MobileNetV2",
    "torchvision.models:efficientnet_b0": "EfficientNet-B0",
    "torchvision.models:convnext_tiny": "ConvNeXt-T",
    "nets.darknet:Darknet53": "Darknet-53 (detector)",
    "nets.unet:UNet": "U-Net",
    "nets.unet:UNet 3d": "U-Net of volumes",
    "nets.diffusion:DiffusionUNet": "U-Net of a diffusion model",
    "nets.video_vae:VideoDecoder": "decoder of a video VAE",
    "nets.patch_embedding:PatchEmbedding": "patch embedding by Conv3d",
    "nets.wavenet:WaveNet": "WaveNet",
    "nets.speech:SpeechFeatures": "speech front end",
    "mnist": "MNIST tutorial",
}
WORKLOADS = {name.partition(" ")[0] for name in NETWORKS}
BLOCK = re.compile(
    r"(<!-- networks, (\w+): made by `make docs` -->\n).*?(<!-- end -->\n)", re.DOTALL
)
SWEEPS = "networks-*"
VERSIONS = "select min(torch), min(driver), max(cudnn) from records"
# Cells whose choices differ by 3% in device time, or in wall time within one launch of a loop that fills the GPU.
BY_CHOICE = f"""
with logs as (
    select
        cell_id,
        choice,
        launch_id,
        log_ratio(candidate_device_ms, baseline_device_ms) as device,
        if(waits_for_cpu, null, log_ratio(candidate_ms, baseline_ms)) as wall
    from block_pairs('benchmark', 'false', 'true', '{SWEEPS}') as pairs
    inner join (select distinct sweep_id, cell_id, block, launch_id from records) as launches
        using (sweep_id, cell_id, block)
    where pairing = 'paired' and choice is not null
),

means as (
    select cell_id, null as launch_id, avg(device) as mean from logs group by cell_id, choice
    union all
    select cell_id, launch_id, avg(wall) from logs group by cell_id, launch_id, choice
)

select distinct cell_id from means
group by cell_id, launch_id
having max(mean) - min(mean) >= {MARGIN}
"""
RACED = Path(__file__).parent / "results/h200-2026-11-29/race"
SHOWN = ("cuda_graph + channels_last", "cuda_graph", "benchmark", "compile")

LIGHT, DARK = ({name: pair[at] for name, pair in COLOURS.items()} for at in (0, 1))
PICTURES = {"light": LIGHT, "dark": DARK, "narrow-light": LIGHT, "narrow-dark": DARK}


def network(row: Verdict | Advice) -> str:
    volumes = row.workload.endswith("UNet") and row.input_shape.count("x") == 4
    return NETWORKS[row.workload + (" 3d" if volumes else "")]


def setting(row: Verdict) -> str:
    return SETTINGS[f"{row.precision} {row.layout}"]


def wrapped(text: str) -> str:
    return fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


@cache
def found() -> list[Verdict]:
    """In the order of NETWORKS, of each cell that of GPUS."""
    names, settings = list(NETWORKS.values()), list(SETTINGS.values())

    def place(row: Verdict) -> tuple[object, ...]:
        is_inference = row.direction == "inference"
        return (
            names.index(network(row)),
            is_inference,
            settings.index(setting(row)),
            row.regime,
            row.loop_kind,
            list(GPUS).index(row.gpu),
        )

    return sorted(Verdict.of(open_store(str(REFERENCE)), SWEEPS), key=place)


@cache
def versions() -> str:
    with open_database(open_store(str(REFERENCE)), SWEEPS) as database:
        ((torch, driver, cudnn),) = (row.values() for row in database.query(VERSIONS).to_pylist())
    return f"driver {driver}, torch {torch}, cuDNN {cudnn_version(cudnn)}"


@cache
def by_choice() -> set[str]:
    """The cells, by id, whose processes chose kernels of different speed."""
    with open_database(open_store(str(REFERENCE)), SWEEPS) as database:
        return {row["cell_id"] for row in database.query(BY_CHOICE).to_pylist()}


def closed_on_both() -> list[tuple[Verdict, Verdict]]:
    """Cells with fixed sizes, or sizes that come back, on each GPU model."""
    cells: dict[tuple[str, ...], list[Verdict]] = {}
    for row in [*fixed(), *returning()]:
        cells.setdefault((network(row), row.direction, setting(row), row.regime), []).append(row)
    return [(one, other) for one, other in cells.values()]


def agreement(cells: list[tuple[Verdict, Verdict]]) -> str:
    """How far two GPU models agree, in verdicts and in ratios."""
    words = [[word(row) for row in both] for both in cells]
    decided = [[each in VERDICTS for each in both] for both in words]
    alike = sum(one == other and one in VERDICTS for one, other in words)
    far = [abs(log(one.ratio / other.ratio)) for one, other in cells]
    within = {
        percent(most): sum(each <= log(1 + most) for each in far) for most in (0.01, 0.03, 0.1)
    }
    ratios = ", ".join(f"{count} within {most}" for most, count in within.items())
    return (
        f"Of the {len(cells)} cells with fixed sizes or sizes that come back, {sum(map(all, decided))} are decided on "
        f"both GPU models, {alike} of them with the same verdict; {sum(map(any, decided)) - sum(map(all, decided))} are "
        f"decided on one alone, {len(cells) - sum(map(any, decided))} on none. Their ratios on the two agree: {ratios}."
    )


def not_excluded() -> str:
    """How many cells of each GPU model may lose by the margin, where none surely does."""
    rows = [row for row in [*fixed(), *returning()] if row.ratio_high > 1 + MIN_EFFECT]
    of = Counter(row.gpu for row in rows)
    return " and ".join(f"{of[gpu]} of the {name}" for gpu, name in GPUS.items() if of[gpu])


def fixed() -> list[Verdict]:
    return [row for row in found() if row.regime == "fixed"]


def returning() -> list[Verdict]:
    return [row for row in found() if row.loop_kind == "closed" and row.regime != "fixed"]


def always_new() -> list[Verdict]:
    return [row for row in found() if row.loop_kind == "open"]


def word(row: Verdict) -> str:
    """Its verdict, or why there is none."""
    if row.wall_verdict in VERDICTS:
        return str(row.wall_verdict)
    if row.by_choice and row.cell_id in by_choice():
        return KERNELS
    if row.launch_bound:
        return CPU
    half_width = log(row.ratio_high / row.ratio_low) / 2
    is_near = abs(abs(log(row.ratio)) - MARGIN) <= min(half_width, NEAREST)
    return NEAR if is_near else SCATTER


def reasons() -> list[str]:
    """Why cells of the tables are not decided."""
    words = set(map(word, found()))
    return [why for why in REASONS if why in words]


def short(rows: list[Verdict]) -> str:
    """A cell on each GPU model."""
    words = [SHORT.get(word(row), word(row)) for row in rows]
    ratios = [f"{row.ratio or 1:.3f}" for row in rows]
    if len(set(words)) == 1:
        return f"{' · '.join(ratios)} {words[0]}"
    return " · ".join(f"{ratio} {text}" for ratio, text in zip(ratios, words, strict=True))


JOBS = (1_000, 20_000, 200_000)
ADVICE = ("on", "off", NO_DIFFERENCE, DOES_NOT_FIT, FAILS, UNDECIDED, NOT_MEASURED)
STARTS = {"container": "new container", "warm": "warm machine"}


@cache
def advised(steps: int) -> list[Advice]:
    """Whether benchmark should be on for a job of so many steps with fixed sizes: two starts of each cell."""
    rows = Advice.of(open_store(str(REFERENCE)), SWEEPS, steps=steps)
    return [row for row in rows if row.regime == "fixed"]


def advice_word(row: Advice) -> str:
    """Its advice; what was not measured is not undecided."""
    is_unmet = row.advice == UNDECIDED and row.why.endswith(f"in this state: {row.start}")
    return NOT_MEASURED if is_unmet else str(row.advice)


def advice_counts(rows: list[Advice]) -> str:
    of = Counter(map(advice_word, rows))
    waiting = sum(bool(row.launch_bound) for row in rows if advice_word(row) == UNDECIDED)
    told = [f"{advice} {of[advice]}" for advice in ADVICE if of[advice]]
    return ", ".join(
        f"{each} ({waiting} {CPU})" if each.startswith(UNDECIDED) and waiting else each
        for each in told
    )


def jobs() -> Iterator[str]:
    """The advice for each job, GPU model and start, in cells."""
    yield f"| steps of one process | GPU | {' | '.join(STARTS.values())} |"
    yield "|---:|---|---|---|"
    for steps, (gpu, name) in product(JOBS, GPUS.items()):
        rows = [row for row in advised(steps) if row.gpu == gpu]
        said = [advice_counts([row for row in rows if row.start == start]) for start in STARTS]
        yield f"| {steps:,} | {name} | {' | '.join(said)} |"


def short_jobs() -> Iterator[str]:
    """README's table: the advice in a new container, a column a word, both GPU models in a field."""
    met = {
        steps: {
            gpu: Counter(
                advice_word(row)
                for row in advised(steps)
                if (row.gpu, row.start) == (gpu, "container")
            )
            for gpu in GPUS
        }
        for steps in JOBS
    }
    words = [
        each for each in ADVICE if any(of[each] for row in met.values() for of in row.values())
    ]
    yield f"| steps of one process | {' | '.join(words)} |"
    yield f"|---:|{'---:|' * len(words)}"
    for steps, of in met.items():
        counts_ = [" · ".join(str(of[gpu][each]) for gpu in GPUS) for each in words]
        yield f"| {steps:,} | {' | '.join(counts_)} |"


def slower(direction: str) -> str:
    """How many times as long a step takes where each has a new size."""
    ratios = sorted(row.ratio or 1 for row in always_new() if row.direction == direction)
    return f"{ratios[0]:.0f} to {ratios[-1]:.0f}"


def answer() -> str:
    """README's first screen: what to do, for which jobs, the picture."""
    narrow = "(max-width: 600px)"
    pictures = [
        (f"{narrow} and (prefers-color-scheme: dark)", "narrow-dark"),
        (narrow, "narrow-light"),
        ("(prefers-color-scheme: dark)", "dark"),
    ]
    return "\n".join(
        [
            wrapped(
                "Should `torch.backends.cudnn.benchmark` be on in your job? **Leave it off, unless one process makes "
                "tens of thousands of steps at a few sizes.** The search for the fastest kernels takes seconds at every "
                "start, and most networks gain little from it. cudnn-sweep measures when that is wrong: for "
                f"{len(NETWORKS)} networks already, and for yours."
            ),
            "",
            *short_jobs(),
            "",
            wrapped(
                f"Advice for {len(fixed()) // 2} cells on an {' · '.join(GPUS.values())}. A cell is a network, its "
                "training or inference step, and a precision, at one fixed size; the job starts in a new container, "
                "where CUDA compiles its kernels again. `off`: the search costs more than it saves. `no difference`: "
                f"the job's time changes by less than 2%. At {JOBS[-1]:,} steps, on pays for: {pays()}. Where every "
                f"step has a new size, a training step takes {slower('training')} times as long with on. [Each "
                "network, with ratios, and warm machines](docs/networks.md)."
            ),
            "",
            "<picture>",
            *(
                f'  <source media="{media}" srcset="docs/networks/{name}.svg">'
                for media, name in pictures
            ),
            (
                '  <img alt="Time of a step with benchmark on, divided by its time with benchmark off, of '
                f'{len(NETWORKS)} networks" src="docs/networks/light.svg">'
            ),
            "</picture>",
            "",
            wrapped(
                "Time of a step with benchmark on, divided by its time with off, without the search: H200 filled, H100 "
                "hollow. bf16 is autocast to bfloat16, `--precision amp_bf16`."
            ),
            "",
        ]
    )


def example() -> str:
    """README's first answer: what `sweep advise` prints of a stored race, without most configs."""
    words = ["--input", "8x3x128x128", "--steps", "50000"]
    options = AdviseOptions(
        workload="my_nets.py:Segmenter", input=("8x3x128x128",), steps=50_000, results=str(RACED)
    )
    race = stored_race(options)
    assert race is not None
    answer = answer_of(race)
    facts, _, raced, lengths = answer.sections
    best = [row for row in raced.rows if row[0].removesuffix(" *") in SHOWN]
    sections = [
        replace(facts, rows=facts.rows[:2]),
        replace(raced, rows=best),
        replace(lengths, rows=lengths.rows[::2]),
    ]
    text = to_text(replace(answer, sections=sections, paste=(), commands=()))
    return "\n".join(
        [
            wrapped(
                f"`sweep advise {options.workload} {shlex.join(words)}` printed, on an H200 (torch 2.11.0+cu130, "
                "cuDNN 9.19.0; [rows](docs/results/h200-2026-11-29/race/README.md)), "
                "among others what follows. In scripts, the pasted lines of four models took as much as their answers say."
            ),
            "",
            *(f"    {line}".rstrip() for line in text.strip().splitlines()),
            "",
        ]
    )


def tables() -> str:
    """docs/networks.md: the advice, the verdicts, and each network."""
    at_least = min(row.ratio_low or 1 for row in always_new())
    return "\n".join(
        [
            "## The advice, by job",
            "",
            *jobs(),
            "",
            wrapped(
                "New container: CUDA must compile its kernels again. Warm machine: it kept them. "
                f"`{UNDECIDED} ({CPU})`: the loop waits for the CPU. Its interval includes what differs between hosts "
                "and launches, so more blocks alone may never shrink it to ±2%."
            ),
            "",
            "## Verdicts on a step, without the search",
            "",
            *counts(),
            "",
            "| undecided | why |",
            "|---|---|",
            *(f"| {why} | {REASONS[why]} |" for why in reasons()),
            "",
            wrapped(
                f"{agreement(closed_on_both())} That it hurts in none of the "
                f"{len(closed_on_both())} does not exclude it: the intervals of {not_excluded()} hold a loss of 3%."
            ),
            "",
            wrapped(
                "If a few sizes come back, each pays for a search of its own. If every step has a new size, each "
                f"step pays for one: turn it off. Training steps then take {slower('training')} times as long, inference "
                f"{slower('inference')} times; at least {at_least:.1f} times even at the low ends of the intervals."
            ),
            "",
            "## Each network",
            "",
            f"Time of a step with on / with off, on an {' · '.join(GPUS.values())}:",
            "",
            *table(fixed()),
            "",
            wrapped(
                "`=`: no difference of 3% or more. bf16 is autocast (`amp_bf16`) with channels_last; the two audio "
                "networks have no channels_last. [Each cell](networks/cells.md), with intervals and break-even points."
            ),
            "",
        ]
    )


def cells_page() -> str:
    """docs/networks/cells.md: what each cell measured."""
    return "\n".join(
        [
            wrapped(
                f"Time of a step with on / with off, with its 95% confidence interval, paired block by block ({versions()}). "
                "Break-even: the steps after which the search has paid, with an empty · a warm cache of compiled "
                "kernels, or once if both are alike (?: its interval is open; –: not measured)."
            ),
            "",
            *cells(),
            "",
        ]
    )


def cells() -> Iterator[str]:
    """Yield a line for each cell: what each GPU model measured."""
    paid = {
        (row.cell_id, row.compute_cache): payback(row)
        for row in BreakEven.of(open_store(str(REFERENCE)), SWEEPS)
    }
    names = GPUS.values()
    columns = [f"{name}, {what}" for name in names for what in ("on / off", "break-even")]
    yield f"| cell | {' | '.join(columns)} |"
    yield f"|---|{'---:|' * len(columns)}"

    def name(row: Verdict) -> str:
        size = "" if row.regime == "fixed" else f", {row.regime.partition('(')[0]}"
        size = ", always new sizes" if row.loop_kind == "open" else size
        return f"{network(row)}, {row.direction}, {setting(row).partition(',')[0]}{size}"

    for cell, rows in groupby(found(), name):
        told = []
        for row in rows:
            ends = interval(row.ratio_low, row.ratio_high, to="–")
            told.append(f"{ratio(row.ratio or 1)}{ends} {SHORT.get(word(row), word(row))}")
            both = [paid.get((row.cell_id, state)) or "–" for state in ("empty", "warm")]
            told.append(" · ".join(dict.fromkeys(text.removeprefix("after ") for text in both)))
        yield f"| {cell} | {' | '.join(told)} |"


def pays() -> str:
    """The networks with a cell for which benchmark pays in the longest job of a new container."""
    rows = [row for row in advised(JOBS[-1]) if row.start == "container" and row.advice == "on"]
    on = {name: {row.gpu for row in rows if network(row) == name} for name in NETWORKS.values()}
    texts = [", ".join(name for name, gpus in on.items() if len(gpus) == len(GPUS))]
    for gpu, short_name in GPUS.items():
        alone = [name for name, gpus in on.items() if gpus == {gpu}]
        texts += [f"on the {short_name} only {', '.join(alone)}"] if alone else []
    return "; ".join(texts)


SIZES = {"fixed": fixed, "a few that come back": returning, "a new one in every step": always_new}


def counts() -> Iterator[str]:
    """Verdicts in cells, by sizes and GPU model."""
    titles = [*VERDICTS.values(), *(f"undecided: {why}" for why in reasons())]
    yield f"| sizes | GPU | cells | {' | '.join(titles)} |"
    yield f"|---|---|{'---:|' * (1 + len(titles))}"
    for (sizes, rows_of), (gpu, name) in product(SIZES.items(), GPUS.items()):
        of = Counter(word(row) for row in rows_of() if row.gpu == gpu)
        yield f"| {sizes} | {name} | {of.total()} | {' | '.join(str(of[each]) for each in (*VERDICTS, *reasons()))} |"


def table(closed: list[Verdict]) -> Iterator[str]:
    columns = [
        (direction, precision)
        for direction in ("training", "inference")
        for precision in ("tf32", "amp_bf16")
    ]
    yield "| network | training, TF32 | training, bf16 | inference, TF32 | inference, bf16 |"
    yield "|---|---:|---:|---:|---:|"
    for name in NETWORKS.values():
        rows = [
            [
                row
                for row in closed
                if (network(row), row.direction, row.precision) == (name, *column)
            ]
            for column in columns
        ]
        texts = [short(each) if each else "" for each in rows]
        yield f"| {name} | {' | '.join(texts)} |"


BLOCKS = {"answer": answer, "example": example, "tables": tables, "cells": cells_page}


def with_blocks(name: str) -> str:
    """README or a page with these blocks made anew."""
    page = (DOCS.parent / name).read_text(encoding="utf-8")
    return BLOCK.sub(lambda block: block[1] + BLOCKS[block[2]]() + block[3], page)


PANELS = {
    "fixed TF32": "fixed sizes, TF32",
    "fixed bf16": "fixed sizes, bf16",
    "new": "a new size in every step",
}
NARROW, WIDE = (
    (0.8, 1.1),
    (1.0, 60.0),
)  # ratios that a panel shows; what lies outside stands at its edge


def picture(name: str) -> str:
    """An SVG: a row a network, a mark for training and for inference, coloured by verdict; panels below each other
    where it is narrow, for a phone."""
    palette, is_narrow = PICTURES[name], name.startswith("narrow")
    rows = [_drawn(row) for row in [*fixed(), *always_new()]]
    panels = [
        _panel(
            palette,
            [row for row in rows if row["panel"] == panel],
            title,
            networks=[
                each
                for each in NETWORKS.values()
                if not is_narrow
                or any((row["panel"], row["network"]) == (panel, each) for row in rows)
            ],
            has_names=is_narrow or panel == "fixed TF32",
        )
        for panel, title in PANELS.items()
    ]
    joined = alt.vconcat if is_narrow else alt.hconcat
    chart = joined(
        *panels,
        spacing=16,
        padding={"left": 28, "top": 5, "right": 5, "bottom": 5},
        background=palette["paper"],
    ).configure_view(stroke=palette["line"])
    chart = chart.configure_axis(
        labelColor=palette["ink"],
        titleColor=palette["quiet"],
        gridColor=palette["line"],
        domainColor=palette["line"],
    ).configure_legend(
        labelColor=palette["ink"],
        titleColor=palette["quiet"],
        orient="bottom",
        columns=2 if is_narrow else 0,
    )
    chart = chart.configure_title(color=palette["ink"], fontSize=12, anchor="start", frame="group")
    return f"{vl_convert.vegalite_to_svg(chart.to_json())}\n{rows_mark()}\n"


def rows_mark() -> str:
    """At a picture's end: the rows that it was drawn from, so that a test can tell whether it is out of date."""
    return f"<!-- rows {content_hash([_drawn(row) for row in [*fixed(), *always_new()]])} -->"


def _drawn(row: Verdict) -> dict[str, object]:
    assert row.ratio is not None
    panel = "new" if row.loop_kind == "open" else f"fixed {setting(row).partition(',')[0]}"
    low, high = WIDE if panel == "new" else NARROW

    def kept(ratio: float | None) -> float:
        return round(min(max(ratio or 1, low), high), 6)

    return {
        "panel": panel,
        "network": network(row),
        "step": row.direction,
        "gpu": GPUS[row.gpu],
        "mark": f"{row.direction} {row.gpu}",
        "verdict": row.wall_verdict,
        "ratio": kept(row.ratio),
        "low": kept(row.ratio_low),
        "high": kept(row.ratio_high),
        "outside": f"{row.ratio:.2f}" if not low <= row.ratio <= high else "",
    }


def _panel(
    palette: dict[str, str],
    rows: list[dict[str, object]],
    title: str,
    *,
    networks: list[str],
    has_names: bool,
) -> alt.LayerChart | alt.FacetChart:
    is_new = title == PANELS["new"]
    y = alt.Y(
        "network:N",
        sort=networks,
        scale=alt.Scale(domain=networks),
        axis=alt.Axis(title=None, labelLimit=240, ticks=False, labels=has_names),
    )
    ticks = [1, 2, 5, 10, 20, 50] if is_new else [0.8, 0.85, 0.9, 0.95, 1, 1.05, 1.1]
    x_scale = alt.Scale(type="log", domain=list(WIDE if is_new else NARROW), nice=False)
    x_axis = alt.Axis(values=ticks, title="on / off", format="~g")
    order = [" ".join(pair) for pair in product(("training", "inference"), GPUS)]
    offset = alt.YOffset("mark:N", sort=order, scale=alt.Scale(domain=order))
    verdicts_ = ["helps", "equivalent", "inconclusive", "hurts"]
    colour = alt.Color(
        "verdict:N",
        title=None,
        scale=alt.Scale(domain=verdicts_, range=[palette[v] for v in verdicts_]),
    )
    base = alt.Chart(alt.InlineData(values=rows)).encode(y=y, yOffset=offset)
    x = alt.X("ratio:Q", scale=x_scale, axis=x_axis)
    lines = base.mark_rule(opacity=0.55).encode(
        x=alt.X("low:Q", scale=x_scale, axis=x_axis), x2="high:Q", color=colour
    )
    shape = alt.Shape(
        "step:N",
        title=None,
        scale=alt.Scale(domain=["training", "inference"], range=["circle", "triangle-up"]),
        legend=alt.Legend(symbolFillColor=palette["quiet"], symbolStrokeWidth=0),
    )
    points = [  # filled: the first GPU model
        base.transform_filter(alt.datum.gpu == gpu)
        .mark_point(filled=is_first, size=30, opacity=1)
        .encode(x=x, color=colour, shape=shape)
        for gpu, is_first in zip(GPUS.values(), (True, False), strict=True)
    ]
    texts = base.mark_text(align="left", dx=7, fontSize=9, color=palette["ink"]).encode(
        x=x, text="outside:N"
    )
    one = (
        alt.Chart(alt.InlineData(values=[{"at": 1}]))
        .mark_rule(color=palette["quiet"])
        .encode(x=alt.X("at:Q", scale=x_scale, axis=x_axis))
    )
    drawn: alt.LayerChart | alt.FacetChart = alt.layer(one, lines, *points, texts).properties(
        title=title, width=170 if is_new else 210, height=alt.Step(8)
    )
    return drawn
