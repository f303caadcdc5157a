"""A whole answer, line by line, as a terminal and as a pull request show it."""

import pytest

from cudnn_sweep.analysis.answers.answer import Answer, Section, State, Verbatim, formats
from cudnn_sweep.analysis.answers.text import lines_of

ANSWER = Answer(
    kind="gate",
    subject="nets.py:Net",
    state="worse",
    headline="Slower by 5%",
    paste=["import torch", "x = 1"],
    sections=[
        Section(rows=[("A step", "2 ms, " + "and a word more " * 5), ("", "b"), ("Model", "Net")]),
        Section(),
        Section(
            title="Series",
            items=[("one", "why", "more"), ("two",)],
            notes=[("A", "note.")],
            head=("name", "ratio"),
            rows=[("conv", "1.05"), ("a|b", "10.5")],
        ),
        Section(title="Rest", rows=[("a label that is long", Verbatim("x`y``z"))], is_rest=True),
    ],
    commands=[("More", "sweep query hud"), ("Again", "sweep gate `x`")],
)
TEXT = """\
Slower by 5%

    import torch
    x = 1

A step      2 ms, and a word more and a word more and a word more and a word
            more and a word more
            b
Model       Net

Series
one
    why
    more
two
A note.
name  ratio
conv  1.05
a|b   10.5

Rest
a label that is long  x`y``z

More: sweep query hud
Again: sweep gate `x`
"""
MARKDOWN = r"""## Slower by 5%

    import torch
    x = 1

|  |  |
|---|---|
| A step | 2 ms, and a word more and a word more and a word more and a word more and a word more |
|  | b |
| Model | Net |

### Series

- **one**
  - why
  - more
- two

A note.

| name | ratio |
|---|---|
| conv | 1.05 |
| a\|b | 10.5 |

More: `sweep query hud`

Again: `` sweep gate `x` ``

<details><summary>The rest</summary>

### Rest

|  |  |
|---|---|
| a label that is long | ```x`y``z``` |

</details>
"""


def test_a_terminal_shows_facts_wrapped_and_columns_below_each_other() -> None:
    assert formats()[".txt"].render(ANSWER) == TEXT


@pytest.mark.parametrize(("length", "lines"), [(68, 1), (69, 2)])
def test_a_fact_fills_eighty_columns(length: int, lines: int) -> None:
    text = f"{'x' * 40} {'y' * (length - 41)}"
    section = Section(rows=[("A", text), ("a" * 9, "b"), ("a" * 10, "b")])
    shown = [*lines_of(section)]
    assert len(shown) == lines + 2
    assert shown[0] == f"A           {text if lines == 1 else 'x' * 40}"
    assert shown[-1] == f"{'a' * 10}  b"
    longer = [*lines_of(Section(rows=[("A", "b"), ("a" * 11, "b")]))]
    assert longer == ["A            b", f"{'a' * 11}  b"]


def test_a_pull_request_shows_the_same_and_folds_the_rest() -> None:
    assert formats()[".md"].render(ANSWER) == MARKDOWN


def test_an_answer_of_one_line_is_one_line() -> None:
    short = Answer(kind="gate", subject="n", state="fine", headline="H")
    assert formats()[".txt"].render(short) == "H\n"
    assert formats()[".md"].render(short) == "## H\n"
    assert short.facts == [] and len(ANSWER.facts) == 4


def test_code_is_fenced_by_more_marks_than_it_holds() -> None:
    for text, fenced in (("a", "`a`"), ("a`", "`` a` ``"), ("`a", "`` `a ``"), ("", "")):
        section = Section(title="T", items=[(Verbatim(text),)])
        answer = Answer(kind="gate", subject="n", state="fine", headline="H", sections=[section])
        assert formats()[".md"].render(answer) == f"## H\n\n### T\n\n- {fenced}\n"


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("fine", 0),
        ("excused", 0),
        ("worse", 1),
        ("mistyped", 2),
        ("cannot tell", 3),
        ("does not run", 4),
        ("needs a GPU", 5),
        ("unfinished", 6),
    ],
)
def test_scripts_rely_on_the_exit_code_of_each_state(state: State, code: int) -> None:
    assert Answer(kind="gate", subject="n", state=state, headline="H").code == code
