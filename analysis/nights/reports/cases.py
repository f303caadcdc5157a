"""Makes the test cases and metrics of a night's report. The case of a series has the same name
every night, so a CI server can show its history."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace

from cudnn_sweep.analysis.answers.answer import Case, Family
from cudnn_sweep.analysis.nights.outcome import NightOutcome
from cudnn_sweep.analysis.nights.reports.sections import OneChange, headline
from cudnn_sweep.analysis.nights.reports.words import BLUNT, finding_texts, meaning, smallest_step
from cudnn_sweep.analysis.nights.series import AMOUNTS, Series, SeriesKey
from cudnn_sweep.analysis.words import one_line

WITH_ITS_GPU = "This series changed like most series of its GPU. The shared finding has series_id"
TOO_FEW_NIGHTS = "The series has too few nights to compare with, or no value tonight."
BASE_UNITS = {"ms": ("seconds", 1e-3), "bytes": ("bytes", 1.0), "share": ("ratio", 1.0)}


def cases(outcome: NightOutcome, series: Sequence[Series]) -> Iterator[Case]:
    result = {"could_not_tell": "error", "learning": "skipped"}.get(outcome.state, "")
    message = one_line("; ".join(outcome.reasons) or headline(outcome))
    yield Case(of=outcome.suite, name="the night could tell", result=result, message=message)
    findings = {text.finding.key: text for text in finding_texts(outcome)}
    by_key = {entry.key: entry for entry in series}
    shared = {member.key: member.shared for member in outcome.members}
    for key in dict.fromkeys([*findings, *by_key]):
        case = Case(of=f"{key.gpu}.{key.cell}", name=f"{meaning(key)}, {key.settings}")
        if text := findings.get(key):
            result = {"alert": "failure", "waiting": "skipped"}.get(text.group, "")
            change = OneChange(findings=(text,))
            output = "\n".join([change.summary, *change.details])
            message = f"{meaning(key)}: {text.change}"
            yield replace(case, result=result, message=message, text=output)
        elif key in shared:
            yield replace(case, result="skipped", message=f"{WITH_ITS_GPU} {shared[key]}")
        else:
            yield replace(case, **_unchanged(by_key[key]))


def _unchanged(series: Series) -> dict[str, str]:
    if not series.is_judged:
        return {"result": "skipped", "message": TOO_FEW_NIGHTS}
    step = f"smallest change that the series can show: {smallest_step(series) or 'none'}"
    if not series.could_show:
        return {"result": "skipped", "message": f"{BLUNT}; {step}"}
    return {"text": step} if series.smallest_step is not None else {}


def numbers(outcome: NightOutcome, series: Sequence[Series]) -> Iterator[Family]:
    ended = outcome.ended_at.timestamp()
    yield Family(name="end_timestamp_seconds", meaning="end of the night", samples=[({}, ended)])
    cost = "sum over GPUs of the time from the first to the last trial"
    gpu_s = [] if outcome.gpu_hours is None else [3600 * outcome.gpu_hours]
    yield Family(name="gpu_seconds", meaning=cost, samples=[({}, time_s) for time_s in gpu_s])
    alerts = [(_labels(alert.key), 1.0) for alert in outcome.alerts]
    yield Family(name="alert", meaning="confirmed change that is not a gain", samples=alerts)
    for metric in AMOUNTS:
        unit, scale = BASE_UNITS[metric.unit]
        values = [
            (_labels(entry.key), scale * value)
            for entry in series
            if entry.key.metric == metric.name and entry.points[-1].date == outcome.date
            if (value := entry.numbers[-1]) is not None
        ]
        yield Family(name=f"{metric.name}_{unit}", meaning=metric.meaning, samples=values)


def _labels(key: SeriesKey) -> Mapping[str, str]:
    return {"series": key.series_id, **asdict(key)}
