"""An answer in each format: what all of them say, and that no text of a user is markup or a control code there."""

import json
import xml.etree.ElementTree as ET

import pytest

from cudnn_sweep.analysis.answers.answer import CODES, Answer, Case, Family, Section, State, formats

ODD = "a|b `c` <img src=x> & \x1b[31m\x07"
ANSWER = Answer(
    kind="gate",
    subject="nets.py:Net",
    state="worse",
    headline=f"Slower: {ODD}",
    sections=[
        Section(rows=[("A step", f"2 ms {ODD}")]),
        Section(title="Series", head=("name", "ratio"), rows=[(ODD, "1.05")]),
    ],
    commands=[("More", "sweep query hud")],
    families=[Family(name="ratio", meaning="of the time", samples=[({}, 1.05)])],
)


@pytest.mark.parametrize("suffix", sorted(formats()))
def test_no_text_is_a_control_code(suffix: str) -> None:
    text = formats()[suffix].render(ANSWER)
    assert "\x1b" not in text and "\x07" not in text
    assert "1.05" in text or suffix in {".json", ".xml"}


def test_markup_has_no_tag_of_a_user() -> None:
    for suffix in (".html", ".md", ".xml"):
        assert "<img" not in formats()[suffix].render(ANSWER), suffix


@pytest.mark.parametrize("state", CODES)
def test_every_format_has_the_exit_code_of_the_state(state: State) -> None:
    answer = Answer(kind="gate", subject="nets.py:Net", state=state, headline="H")
    assert json.loads(formats()[".json"].render(answer))["exit_code"] == CODES[answer.state]
    line = f'cudnn_sweep_gate_exit_code{{model="nets.py:Net"}} {float(CODES[answer.state])!r}'
    assert line in formats()[".prom"].render(answer).splitlines()
    (case,) = ET.fromstring(formats()[".xml"].render(answer)).iter("testcase")
    passed = {"fine": True}.get(state, False)
    assert (case.find("system-out") is not None) is passed


def test_a_program_that_was_watched_has_its_own_exit_code() -> None:
    ended = Answer(kind="audit", subject="train.py", state="does not run", headline="H", ended=7)
    assert json.loads(formats()[".json"].render(ended))["exit_code"] == 7


def test_cases_are_counted_by_their_result() -> None:
    cases = [Case(of="a", name="1"), Case(of="a", name="2", result="failure", message="slower")]
    answer = Answer(kind="night", subject="n", state="worse", headline="H", cases=cases)
    suite = ET.fromstring(formats()[".xml"].render(answer))
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")


def test_only_a_section_with_a_title_has_a_heading_and_an_anchor() -> None:
    page = formats()[".html"].render(ANSWER)
    assert page.count("<h2>") == 1 and "<h2>Series</h2>" in page
    assert page.count("<section>") == 1 and page.count("<section id=") == 1
    assert page.count('<div class="scrolls">') == 2
    empty = Answer(kind="gate", subject="n", state="fine", headline="H", sections=[Section()])
    assert '<div class="scrolls">' not in formats()[".html"].render(empty)
