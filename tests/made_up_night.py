"""Nights made up for tests: keys, series, findings and histories; and a night with what is behind it."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from cudnn_sweep.analysis.nights.history import HARDWARE, MACHINE, SOFTWARE_AND_COMMIT, History
from cudnn_sweep.analysis.nights.history import Night as NightInHistory
from cudnn_sweep.analysis.nights.outcome import (
    Acceptance,
    Finding,
    Machine,
    NightOutcome,
    Version,
)
from cudnn_sweep.analysis.nights.reports.report import texts_of
from cudnn_sweep.analysis.nights.series import Change, NightPoint, Series, SeriesKey

Night = tuple[NightOutcome, list[Series]]
HOSTILE = "a|b `c` ``` </script><img src=x onerror='window.pwned=1'> $(d) \x1b[31m"


def key_of(metric: str = "steady_wall", cell: str = "conv", **named: str) -> SeriesKey:
    usual = {"env_hash": "lab", "gpu": "GPU", "cell_id": "cell", "settings": "benchmark=false"}
    return SeriesKey(metric=metric, cell=cell, **{**usual, **named})


def points_of(
    values: Sequence[float | str | None],
    first: date,
    software: Callable[[int], str] = lambda _: "a",
) -> tuple[NightPoint, ...]:
    """A night each, from `first` on; `software` is that of a place."""
    days = [first + timedelta(days=place) for place in range(len(values))]
    return tuple(
        NightPoint(
            date=day,
            value=value,
            software_hash=software(place),
        )
        for place, (day, value) in enumerate(zip(days, values, strict=True))
    )


def finding_of(key: SeriesKey, since: date, **found: Any) -> Finding:
    usual: dict[str, Any] = {
        "state": "confirmed",
        "direction": "worse",
        "ratio": None,
        "ratio_low": None,
        "ratio_high": None,
        "blocks": 0,
        "nights": 8,
        "cause": "hardware",
        "moved": (),
        "command": "again",
    }
    return Finding(key=key, since=since, **{**usual, **found})


def history_of(
    key: SeriesKey,
    values: Sequence[float | str | None],
    first: date,
    new_torch_at: int | None = None,
) -> History:
    """Of one series, measured every night."""

    def torch(place: int) -> str:
        return "2.12" if new_torch_at is not None and place >= new_torch_at else "2.11"

    points = points_of(values, first, torch)
    same = dict.fromkeys((*HARDWARE, *SOFTWARE_AND_COMMIT, *MACHINE), "same")
    nights = tuple(
        NightInHistory(
            sweep_id=f"night-{point.date}-lab",
            date=point.date,
            planned=10,
            reached=10,
            recorded=10,
            softwares={"lab": point.software_hash},
            parts=same | {"torch": point.software_hash},
        )
        for point in points
    )
    return History(nights=nights, series=(Series(key=key, points=points),))


def made_up_night() -> Night:
    """A made-up night after 29 others, in which torch changed two nights ago: a series got slower and
    another, whose cell has a name that attacks, chooses other kernels; one waits, one got better, one
    has no value.
    """
    days = [date(2026, 2, 1) + timedelta(days=day) for day in range(30)]
    torch = Change(part="torch", before="2.9.0", now="2.10.0")

    def series(metric: str, cell: str, value: Callable[[int], float | str | None]) -> Series:
        key = key_of(
            metric, cell, env_hash="env", gpu="H200", cell_id=cell[:4], settings="benchmark=true"
        )
        values = [value(place) for place in range(len(days))]
        return Series(
            key=key,
            points=points_of(values, days[0], lambda place: "old" if place < 27 else "new"),
        )

    def finding(one: Series, since: int, **found: Any) -> Finding:
        usual: dict[str, Any] = {
            "before": one.points[0].value,
            "now": one.points[-1].value,
            "nights": 26,
            "cause": "software",
            "moved": (torch,),
            "command": f"sweep launch cluster.yaml --only cell_id={one.key.cell_id}",
        }
        return finding_of(one.key, days[since], **{**usual, **found})

    def noise(place: int) -> float:
        return 1 + (place * 7 % 5 - 2) / 200

    slower = series(
        "steady_wall", "conv 8x64", lambda n: None if n == 9 else noise(n) * (1 + (n >= 27) / 10)
    )
    other = series("engine", HOSTILE, lambda n: "winograd" if n < 27 else "implicit gemm")
    odd = series("steady_device", "conv 4x8", lambda n: noise(n) * (1.5 if n in (12, 29) else 1.0))
    better = series("peak_memory", "vgg16", lambda n: 2.0**30 * (2 if n < 20 else 1))
    usual = replace(
        series("cold_empty", "vgg16", lambda n: 800 * noise(n)),
        smallest_step=0.16,
        could_show=False,
    )
    never = replace(series("cold_warm", "vgg16", lambda _: None), is_judged=False)
    ratio = {"ratio": 1.1, "ratio_low": 1.08, "ratio_high": 1.12}
    outcome = NightOutcome(
        night=f"night-{days[-1]}-lab",
        date=days[-1],
        launch_file="cluster.yaml",
        suite="nightly",
        started_at=datetime(2026, 3, 2, 2, 30, tzinfo=UTC),
        ended_at=datetime(2026, 3, 2, 3, 10, tzinfo=UTC),
        planned_trials=30,
        recorded_trials=30,
        state="regression",
        reasons=(),
        nights=29,
        fine_series=1,
        insufficient_series=1,
        findings=(
            finding(slower, 27, blocks=12, **ratio),
            finding(other, 27, direction="other", blocks=6),
            finding(odd, 29, state="waiting", ratio=1.5, cause="hardware", moved=()),
            finding(better, 20, direction="better", ratio=0.5, cause="unknown", moved=()),
        ),
        changes=(Change(part="driver", before="580.65", now="580.82"),),
        new_baseline=None,
        versions=(Version(date=days[27], software_hash="new", changes=(torch,)),),
        machines=(
            Machine(
                gpu="H200",
                gpu_uuid="GPU-1",
                host="node-1",
                cpu_model="EPYC 9654",
                trials=30,
                matmul=0.97,
                copy=None,
            ),
        ),
    )
    return outcome, [never, usual, better, odd, other, slower]


def hidden_from_wall(finding: Finding, ratio: float, low: float, high: float) -> Finding:
    """The finding as one of device time, 12% more, where the loop waits for the CPU: wall time's `ratio`."""
    return replace(
        finding,
        key=replace(finding.key, metric="steady_device"),
        ratio=1.12,
        ratio_low=1.11,
        ratio_high=1.13,
        wall_ratio=ratio,
        wall_ratio_low=low,
        wall_ratio_high=high,
    )


def nights_like_it() -> dict[str, Night]:
    """The made-up night, and others with one thing changed each."""
    outcome, series = made_up_night()
    slower, *_ = outcome.findings
    why = ("2 nights compare and 7 are needed: wait",)
    untold = replace(
        outcome,
        state="could_not_tell",
        reasons=why,
        insufficient_series=6,
        fine_series=0,
        findings=(),
    )
    ours = (Change(part="version", before="0.1.0", now="0.2.0"),)
    hidden = hidden_from_wall(slower, 1.01, 1.004, 1.02)
    others = [replace(hidden, key=replace(hidden.key, cell_id=name)) for name in ("b", "c")]
    key = replace(slower.key, metric="shared", cell="GPU-1 on node-1", settings="most series worse")
    gpu = replace(slower, key=key, before="none", now="8 of 10 times", moved=(), cause="hardware")
    member = replace(slower, shared=key.series_id)
    found: dict[str, list[Finding]] = {
        f"confirmed by {metric}": [
            replace(slower, key=replace(slower.key, metric=metric), blocks=blocks)
        ]
        for metric, blocks in (("failure", 6), ("sign", 1))
    }
    found |= {"hidden from wall time": [hidden], "hidden beside shown": [hidden, *others, slower]}
    outcomes = {
        "as made up": outcome,
        "fine": replace(outcome, state="fine", findings=(), fine_series=4, blunt_series=1),
        "our own version": replace(outcome, findings=(replace(slower, moved=ours),), changes=ours),
        "a whole GPU": replace(outcome, findings=(gpu,), members=(member,)),
        "of much": _of_much(outcome),
        **{name: replace(outcome, findings=tuple(each)) for name, each in found.items()},
    }
    nobody = [replace(one, is_judged=False) for one in series]
    first_nights = [
        replace(one, points=one.points[: 1 + place % 2]) for place, one in enumerate(series)
    ]
    return {name: (each, series) for name, each in outcomes.items()} | {
        "of first nights": (outcomes["fine"], first_nights),
        "could not tell": (untold, nobody),
        "still learning": (replace(untold, state="learning"), nobody),
    }


def _of_much(outcome: NightOutcome) -> NightOutcome:
    """A night with more of everything than its reports name, on several machines."""
    slower, other, _, better = outcome.findings
    steady = [
        replace(
            slower,
            key=replace(slower.key, cell=f"cell {number}", cell_id=f"{number}", metric=metric),
            ratio=1.05 + number / 100,
            ratio_low=1.04 + number / 100,
            ratio_high=1.06 + number / 100,
            kernels=kernels if number < 2 else None,
        )
        for number, metric in enumerate([*["steady_wall"] * 7, "steady_device"])
        for kernels in [Change(part="kernels", before="a, b", now=f"a, c{number}")]
    ]
    old, new = (", ".join(f"{side}{n}" for n in range(5)) + ", both" for side in ("old", "new"))
    engine = replace(other, before=old, now=new, is_news=True)
    turned = replace(engine, key=replace(engine.key, cell="turned"), before="x, y", now="y, x")
    bits = replace(
        engine, key=replace(engine.key, metric="bits", cell="bits"), before="1", now="2", blocks=0
    )
    failure = replace(
        slower,
        key=replace(slower.key, metric="failure", gpu="B200"),
        before="ok",
        now="error",
        ratio=None,
        message="no kernel image " * 16,
        blocks=1,
    )
    refuted = replace(
        better,
        state="refuted",
        direction="worse",
        ratio=2.5,
        ratio_low=0.9,
        ratio_high=4.1,
        cause="unknown",
        moved=outcome.changes,
    )
    waiting = replace(slower, key=replace(slower.key, cell="waits"), state="waiting", blocks=3)
    accepted = [
        Acceptance(key=slower.key, first=slower.since, reason=reason, told_on=slower.since)
        for reason in ("it is right", "it is right", "it is right", "torch")
    ]
    (machine,) = outcome.machines
    machines = (
        replace(machine, matmul=0.99, copy=1.015, cpu_model=None),
        replace(machine, gpu="B200", gpu_uuid=None, host="node-2", matmul=1.0, copy=0.98),
        replace(machine, matmul=None, copy=None, trials=1200),
    )
    return replace(
        outcome,
        findings=(*steady, failure, engine, turned, bits, refuted, waiting, better),
        accepted=tuple(accepted),
        machines=machines,
        new_baseline="the GPU is another one",
        skipped={"unet": "No module named 'monai'", "speech": "No module named 'torchaudio'"},
        gpu_hours=12.5,
        blunt_series=1200,
    )


def files_of(night: Night) -> dict[str, Any]:
    """The text of each report, by its file: of the JSON its value, of the page what is below its styles."""
    texts = texts_of(*night)
    page = texts["night.html"].partition("<body>")[2]
    return texts | {"night.json": json.loads(texts["night.json"]), "night.html": page}
