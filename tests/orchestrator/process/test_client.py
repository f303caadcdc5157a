"""Which error a process that traced or called a model is, of outcomes that are made up."""

from types import SimpleNamespace
from typing import Any

import pytest

from cudnn_sweep.orchestrator.errors import ModelError, SpecError
from cudnn_sweep.orchestrator.process.client import call_models, trace


def outcome(status: str = "ok", reply: Any = None, message: str | None = "why") -> Any:
    return SimpleNamespace(status=status, reply=reply, message=message)


def reply(*, is_mistake: bool = False, traced: Any = None, step_ms: float | None = None) -> Any:
    return SimpleNamespace(is_mistake=is_mistake, trace=traced, step_ms=step_ms)


@pytest.mark.parametrize(
    ("ended", "error", "text"),
    [
        (outcome(reply=reply(traced="trace")), None, ""),
        (outcome(reply=reply()), ModelError, "why"),
        (outcome("killed"), ModelError, "why"),
        (outcome("killed", message=None), ModelError, "killed"),
        (outcome("error", reply(is_mistake=True)), SpecError, "why"),
    ],
)
def test_a_trace_that_fails_is_the_models_error_or_a_mistake(
    ended: Any, error: type[Exception] | None, text: str
) -> None:
    server: Any = SimpleNamespace(run=lambda _: ended)
    request: Any = None
    if error is None:
        assert trace(server, request) == "trace"  # type: ignore[comparison-overlap]
        return
    with pytest.raises(SpecError, match=text) as raised:
        trace(server, request)
    assert raised.type is error


UNTRIED = "net at input 2x3 could not be called before measuring: why"


@pytest.mark.parametrize(
    ("ended", "shown"),
    [
        (
            outcome(reply=reply(step_ms=1.23)),
            [("net at input 2x3 runs. A first rough timing: 1.23 ms per step.", False)],
        ),
        (outcome(reply=reply()), []),
        (outcome("timeout"), [(UNTRIED, True)]),
        (outcome("out_of_memory"), [(UNTRIED, True)]),
        (outcome("error"), ModelError),
        (outcome("error", reply(is_mistake=True)), SpecError),
    ],
)
def test_a_model_that_lacks_time_or_memory_is_measured_untried(ended: Any, shown: Any) -> None:
    server: Any = SimpleNamespace(run=lambda _: ended)
    trial: Any = SimpleNamespace(cell=SimpleNamespace(workload="net", input_shape=(2, 3)))
    if isinstance(shown, list):
        assert list(call_models(server, [trial])) == shown
        return
    with pytest.raises(SpecError, match="net at input 2x3: why") as raised:
        list(call_models(server, [trial]))
    assert raised.type is shown
