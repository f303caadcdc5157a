"""What `sweep audit` says next, of findings that are made up."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cudnn_sweep.orchestrator.auditing import audit
from cudnn_sweep.orchestrator.cli.audit import _next_lines

SHAPES, SUITE = Path("shapes.csv"), Path("suite.yaml")


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "why_no_suite", lambda _: "no suite")
    monkeypatch.setattr(audit, "what_it_takes", lambda model, _: [f"{model.name} takes more"])


def inputs(left_out: int = 0) -> Any:
    model = SimpleNamespace(name="Net")
    return SimpleNamespace(model=model, counts=[((1, 3), 4), ((2, 3), 1000)], left_out=left_out)


def lines(written: list[Path], of: Any = None, models: Any = ()) -> list[str]:
    audited: Any = SimpleNamespace(findings=SimpleNamespace(models=models))
    return _next_lines(audited, of, written)


def test_without_findings_nothing_is_said() -> None:
    audited: Any = SimpleNamespace(findings=None)
    assert _next_lines(audited, inputs(), [SHAPES]) == []
    assert lines([], inputs()) == []


@pytest.mark.parametrize(
    ("left_out", "written", "lacking", "last"),
    [
        (0, [SHAPES], [], "no suite, with `regime: {listed: {file: shapes.csv}}`."),
        (0, [SHAPES, SUITE], [], "launch suite.yaml"),
        (0, [SHAPES, SUITE], ["a loss"], "Before a launch of suite.yaml: a loss."),
        (7, [SHAPES, SUITE], [], "launch suite.yaml"),
    ],
)
def test_what_was_written_is_followed_by_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
    left_out: int,
    written: list[Path],
    lacking: list[str],
    last: str,
) -> None:
    monkeypatch.setattr(audit, "what_to_add", lambda _: lacking)
    found = lines(written, inputs(left_out))
    names = " and ".join(map(str, written))
    assert found[0] == f"Wrote the inputs of 1,004 calls of Net to {names}."
    assert any("Left out 7 calls" in line for line in found) == bool(left_out)
    assert found[-1].endswith(last)
    assert len(found) == 2 + bool(left_out)


def test_without_shapes_the_models_are_named_and_what_those_take() -> None:
    models = [
        SimpleNamespace(name="Net", shapes=(), in_a_call=[["training"]]),
        SimpleNamespace(name="Other", shapes=("shape",), in_a_call=[["training"]]),
    ]
    assert lines([SHAPES], None, models) == [
        "No shapes were written. Models: Net, Other.",
        "Net takes more.",
    ]
    assert lines([], None) == ["No shapes were written. Models: none."]
