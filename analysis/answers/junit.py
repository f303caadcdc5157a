"""Writes an answer as JUnit XML, which CI servers show as test results."""

import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from cudnn_sweep.analysis.answers.answer import Answer, AnswerFormat, Case, State
from cudnn_sweep.analysis.answers.text import to_text

NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
RESULTS: dict[State, str] = {"fine": "", "worse": "failure", "excused": "skipped"}
COUNTED = {"failures": "failure", "errors": "error", "skipped": "skipped"}


def to_junit(answer: Answer) -> str:
    cases = answer.cases or [
        Case(
            of=f"sweep.{answer.kind}",
            name=answer.subject,
            result=RESULTS.get(answer.state, "error"),
            message=answer.headline,
            text=to_text(answer),
        )
    ]
    properties = [_element("property", name=name, value=text) for name, text in answer.facts]
    counts = {
        name: str(sum(case.result == result for case in cases)) for name, result in COUNTED.items()
    }
    suite = _element(
        "testsuite",
        *([_element("properties", *properties)] if properties else ()),
        *map(_case, cases),
        name=f"sweep {answer.kind}",
        tests=str(len(cases)),
        **counts,
    )
    ElementTree.indent(suite)
    text = ElementTree.tostring(suite, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _case(case: Case) -> Element:
    message = {"message": case.message} if case.result else {}
    result = [_element(case.result or "system-out", text=case.text, **message)]
    return _element("testcase", *result, classname=case.of, name=case.name)


def _element(tag: str, *children: Element, text: str = "", **attributes: str) -> Element:
    legal = {name: NO_XML.sub("\ufffd", value) for name, value in attributes.items()}
    element = Element(tag, legal)
    element.text = NO_XML.sub("\ufffd", text)
    element.extend(children)
    return element


FORMAT = AnswerFormat(suffix=".xml", render=to_junit)
