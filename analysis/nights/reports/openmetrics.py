"""A night as OpenMetrics, for Prometheus and Grafana: node_exporter's textfile collector reads the file.

The collector reads Prometheus' older format, which this is too: no timestamps, no `# UNIT`.
https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TypeAlias

from cudnn_sweep.analysis.nights.outcome import NightOutcome
from cudnn_sweep.analysis.nights.reports.report import NightReport
from cudnn_sweep.analysis.nights.series import AMOUNTS, Series, SeriesKey

BASE_UNITS = {"ms": ("seconds", 1e-3), "bytes": ("bytes", 1.0), "share": ("ratio", 1.0)}
Samples: TypeAlias = Sequence[tuple[Mapping[str, str], float]]
ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def to_openmetrics(outcome: NightOutcome, series: Sequence[Series]) -> str:
    """Return the night's exit code, its alerts, and tonight's value of each series of numbers."""
    alerts = [(_labels(alert.key), 1.0) for alert in outcome.alerts]
    gpu_s: Samples = [] if outcome.gpu_hours is None else [({}, 3600 * outcome.gpu_hours)]
    families: list[tuple[str, str, Samples]] = [
        ("exit_code", "0 fine, 1 regression, 3 could not tell", [({}, outcome.exit_code)]),
        ("end_timestamp_seconds", "when it ended", [({}, outcome.ended_at.timestamp())]),
        ("gpu_seconds", "of each GPU, from its first trial to its last one", gpu_s),
        ("alert", "a confirmed change that is no gain", alerts),
    ]
    for metric in AMOUNTS:
        unit, scale = BASE_UNITS[metric.unit]
        values = [
            (_labels(entry.key), scale * value)
            for entry in series
            if entry.key.metric == metric.name and entry.points[-1].date == outcome.date
            if (value := entry.numbers[-1]) is not None
        ]
        families.append((f"{metric.name}_{unit}", metric.meaning, values))
    nightly = outcome.night.partition(f"{outcome.date}-")[2]
    lines = [line for family in families for line in _lines(nightly, *family)]
    return "\n".join([*lines, "# EOF"]) + "\n"


def _labels(key: SeriesKey) -> Mapping[str, str]:
    return {"series": key.series_id, **asdict(key)}


def _lines(nightly: str, name: str, meaning: str, samples: Samples) -> Iterator[str]:
    yield f"# HELP cudnn_sweep_night_{name} {meaning}"
    yield f"# TYPE cudnn_sweep_night_{name} gauge"
    for labels, value in samples:
        pairs = {"nightly": nightly, **labels}.items()
        text = ",".join(f'{label}="{text.translate(ESCAPES)}"' for label, text in pairs)
        yield f"cudnn_sweep_night_{name}{{{text}}} {float(value)!r}"


REPORT = NightReport(file="night.prom", render=to_openmetrics)
