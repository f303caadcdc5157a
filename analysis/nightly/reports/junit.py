"""A night as JUnit XML, which CI servers show as tests: one test case a series.

Its name stays from night to night, so that a server's own history of it means something. An alert
is a failure, what waits or has too few nights is skipped, and a night that could not tell an error.
"""

import re
from collections.abc import Iterable, Sequence
from xml.etree import ElementTree

from cudnn_sweep.analysis.nightly.outcome import NightOutcome
from cudnn_sweep.analysis.nightly.reports.report import NightReport
from cudnn_sweep.analysis.nightly.reports.sections import headline
from cudnn_sweep.analysis.nightly.reports.words import (
    BLUNT,
    FindingText,
    facts,
    finding_texts,
    meaning,
    moves,
    smallest_step,
)
from cudnn_sweep.analysis.nightly.series import Series

NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
WITH_ITS_GPU = "moves as most series of its GPU do: the finding of series"
TOO_FEW_NIGHTS = "insufficient data: too few nights to compare with"


def to_junit(outcome: NightOutcome, series: Sequence[Series]) -> str:
    cases = [_night(outcome), *_series(outcome, series)]
    seconds = f"{(outcome.ended_at - outcome.started_at).total_seconds():.3f}"
    counts = {
        "tests": str(len(cases)),
        "failures": _count(cases, "failure"),
        "errors": _count(cases, "error"),
    }
    suites = _element("testsuites", name="cudnn-sweep nightly", time=seconds, **counts)
    suite = _element(
        "testsuite",
        name=outcome.suite,
        timestamp=outcome.started_at.isoformat(timespec="seconds"),
        time=seconds,
        skipped=_count(cases, "skipped"),
        **counts,
    )
    properties = _element("properties")
    told = [*facts(outcome), ("changed since the night before", moves(outcome.changes))]
    properties.extend(_element("property", name=name, value=value) for name, value in told)
    suites.append(suite)
    suite.append(properties)
    suite.extend(cases)
    ElementTree.indent(suites)
    text = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _night(outcome: NightOutcome) -> ElementTree.Element:
    """The night itself: it passes where it could tell."""
    case = _element("testcase", classname=outcome.suite, name="the night could tell")
    if outcome.state == "could_not_tell":
        message = outcome.reasons[0] if outcome.reasons else headline(outcome)
        error = _element("error", type="could_not_tell", message=message)
        error.text = _legal("\n".join(outcome.reasons))
        case.append(error)
    elif outcome.state == "learning":
        case.append(_element("skipped", message="; ".join(outcome.reasons)))
    return case


def _series(outcome: NightOutcome, series: Sequence[Series]) -> Iterable[ElementTree.Element]:
    findings = {each.finding.key: each for each in finding_texts(outcome)}
    known = {one.key: one for one in series}
    shared = {each.key: each.shared for each in outcome.members}
    for key in dict.fromkeys([*findings, *known]):
        name = f"{meaning(key)}, {key.settings}"
        case = _element("testcase", classname=f"{key.gpu}.{key.cell}", name=name)
        if key in findings:
            case.append(_result(findings[key]))
        elif key in shared:
            case.append(_element("skipped", message=f"{WITH_ITS_GPU} {shared[key]}"))
        else:
            case.extend(_unchanged(known[key]))
        yield case


def _unchanged(series: Series) -> Iterable[ElementTree.Element]:
    """One that could not have shown the least effect does not pass."""
    step = f"the smallest step that it could show: {smallest_step(series) or 'another word'}"
    if not series.is_judged:
        yield _element("skipped", message=TOO_FEW_NIGHTS)
    elif not series.could_show:
        yield _element("skipped", message=f"{BLUNT}; {step}")
    elif series.smallest_step is not None:
        output = _element("system-out")
        output.text = step
        yield output


def _result(each: FindingText) -> ElementTree.Element:
    """What got better or was refuted passes, and its output says so."""
    tag = {"alert": "failure", "waiting": "skipped"}.get(each.group, "system-out")
    message = f"{meaning(each.key)}: {each.change}"
    said = {} if tag == "system-out" else {"message": message, "type": each.finding.direction}
    result = _element(tag, **said)
    result.text = _legal(f"{each.line}\nTo measure again: {each.command}")
    return result


def _count(cases: Sequence[ElementTree.Element], tag: str) -> str:
    return str(sum(case.find(tag) is not None for case in cases))


def _element(tag: str, **attributes: str) -> ElementTree.Element:
    return ElementTree.Element(tag, {name: _legal(text) for name, text in attributes.items()})


def _legal(text: str) -> str:
    """Without the characters that XML cannot hold."""
    return NO_XML.sub("\ufffd", text)


REPORT = NightReport(file="junit.xml", render=to_junit)
