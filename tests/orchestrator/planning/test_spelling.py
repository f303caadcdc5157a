"""An option is spelled once: what is printed of a command, typed again, means the same."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from cudnn_sweep.orchestrator.cli.commands import spelled
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.spelling import words_of
from cudnn_sweep.orchestrator.steps.step_options import AdviseOptions


def _typed(words: list[str], kind: type) -> Any:
    found: list[Any] = []

    def command(options: Any) -> None:
        found.append(options)

    command.__annotations__["options"] = kind
    app = typer.Typer()
    app.command()(spelled(command))
    ran = CliRunner().invoke(app, words)
    assert ran.exit_code == 0, ran.output
    return found[0]


@pytest.mark.parametrize(
    ("make", "given"),
    [
        (LaunchOptions, {}),
        (
            LaunchOptions,
            {
                "file": Path("my cluster.yaml"),
                "only": ("a=b", "c=d e"),
                "minutes": 2.5,
                "new": True,
            },
        ),
        (
            AdviseOptions,
            {"workload": "my/net.py:Net", "argument": ('n={"a": 1}',), "memory_limit": 12.0},
        ),
    ],
)
def test_words_that_are_typed_again_mean_the_same(
    make: Callable[..., Any], given: dict[str, Any]
) -> None:
    options = make(**given)
    typed = _typed(words_of(options), type(options))
    assert {name: getattr(typed, name) for name in given} == given
    assert words_of(typed) == words_of(options)


def test_what_is_as_usual_is_left_out() -> None:
    assert words_of(LaunchOptions(results="results", shard=None)) == ["--results", "results"]
    assert words_of(AdviseOptions(workload="conv", precision="tf32", steps=7)) == [
        *("conv", "--steps", "7")
    ]
