"""A night as JUnit XML, which CI servers show as tests: one test case a series.

Its name stays from night to night, for the server's own history. An alert is a failure; a finding that waits, or a
series with too few nights, is skipped; the night without an answer is an error.
"""

import re
from collections.abc import Iterable, Sequence
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from cudnn_sweep.analysis.nights.outcome import NightOutcome
from cudnn_sweep.analysis.nights.reports.report import NightReport
from cudnn_sweep.analysis.nights.reports.sections import headline
from cudnn_sweep.analysis.nights.reports.words import (
    BLUNT,
    FindingText,
    facts,
    finding_texts,
    meaning,
    moves,
    smallest_step,
)
from cudnn_sweep.analysis.nights.series import Series

NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
WITH_ITS_GPU = "moves as most series of its GPU do: the finding of series"
TOO_FEW_NIGHTS = "insufficient data: too few nights to compare with"


def to_junit(outcome: NightOutcome, series: Sequence[Series]) -> str:
    cases = [_night(outcome), *_series(outcome, series)]
    labelled = [*facts(outcome), ("changed since the night before", moves(outcome.changes))]
    properties = [_element("property", name=name, value=text) for name, text in labelled]
    seconds = f"{(outcome.ended_at - outcome.started_at).total_seconds():.3f}"
    counts = {
        "tests": str(len(cases)),
        "failures": _count(cases, "failure"),
        "errors": _count(cases, "error"),
    }
    suite = _element(
        "testsuite",
        _element("properties", *properties),
        *cases,
        name=outcome.suite,
        timestamp=outcome.started_at.isoformat(timespec="seconds"),
        time=seconds,
        skipped=_count(cases, "skipped"),
        **counts,
    )
    suites = _element("testsuites", suite, name="cudnn-sweep nightly", time=seconds, **counts)
    ElementTree.indent(suites)
    text = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _night(outcome: NightOutcome) -> Element:
    """Return the case of the night itself: it passes unless there is no answer."""
    results, reasons = [], outcome.reasons
    if outcome.state == "could_not_tell":
        message = reasons[0] if reasons else headline(outcome)
        text = "\n".join(reasons)
        results = [_element("error", text=text, type="could_not_tell", message=message)]
    elif outcome.state == "learning":
        results = [_element("skipped", message="; ".join(reasons))]
    return _element("testcase", *results, classname=outcome.suite, name="the night could tell")


def _series(outcome: NightOutcome, series: Sequence[Series]) -> Iterable[Element]:
    findings = {text.finding.key: text for text in finding_texts(outcome)}
    by_key = {entry.key: entry for entry in series}
    shared = {member.key: member.shared for member in outcome.members}
    for key in dict.fromkeys([*findings, *by_key]):
        if key in findings:
            results = [_result(findings[key])]
        elif key in shared:
            results = [_element("skipped", message=f"{WITH_ITS_GPU} {shared[key]}")]
        else:
            results = _unchanged(by_key[key])
        name = f"{meaning(key)}, {key.settings}"
        yield _element("testcase", *results, classname=f"{key.gpu}.{key.cell}", name=name)


def _unchanged(series: Series) -> list[Element]:
    """Return the result of a series without finding; too noisy for the least effect is skipped."""
    step = f"the smallest step that it could show: {smallest_step(series) or 'another word'}"
    if not series.is_judged:
        return [_element("skipped", message=TOO_FEW_NIGHTS)]
    if not series.could_show:
        return [_element("skipped", message=f"{BLUNT}; {step}")]
    return [_element("system-out", text=step)] if series.smallest_step is not None else []


def _result(text: FindingText) -> Element:
    """Return the result of a finding: better or refuted ones pass, with the text as output."""
    tag = {"alert": "failure", "waiting": "skipped"}.get(text.group, "system-out")
    message = {"message": f"{meaning(text.key)}: {text.change}", "type": text.finding.direction}
    output = f"{text.line}\nTo measure again: {text.command}"
    return _element(tag, text=output, **({} if tag == "system-out" else message))


def _count(cases: Sequence[Element], tag: str) -> str:
    return str(sum(case.find(tag) is not None for case in cases))


def _element(tag: str, *children: Element, text: str = "", **attributes: str) -> Element:
    """Return an element without the characters that XML cannot hold."""
    legal = {name: NO_XML.sub("\ufffd", value) for name, value in attributes.items()}
    element = Element(tag, legal)
    element.text = NO_XML.sub("\ufffd", text)
    element.extend(children)
    return element


REPORT = NightReport(file="junit.xml", render=to_junit)
