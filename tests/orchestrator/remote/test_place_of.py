"""Which of a cluster's nodes a launch measures on, and how a job ends, of made-up nodes."""

import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from cudnn_sweep.orchestrator.errors import NeedsGpuError, SpecError
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.remote import driver, job
from cudnn_sweep.orchestrator.remote.driver import drive, place_of
from cudnn_sweep.orchestrator.remote.job import Ended
from cudnn_sweep.orchestrator.remote.nodes import NO_CUDA
from cudnn_sweep.workloads.cells.suite import GpuChoice


class Nodes:
    """What a launch finds: nodes by their GPU's model, and those that are unfit."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        models: Sequence[str],
        unfit: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.printed: list[str] = []
        found = [SimpleNamespace(model=model, node_id=str(at)) for at, model in enumerate(models)]
        monkeypatch.setattr(driver, "wait_for_nodes", lambda *_: None)
        monkeypatch.setattr(driver, "look_at_nodes", lambda *_, **__: (found, [*unfit]))
        monkeypatch.setattr(driver, "workload_names", lambda _: [])
        monkeypatch.setattr(driver, "say", lambda _, text: self.printed.append(text))
        monkeypatch.setattr(driver, "TheseNodes", lambda nodes, _: nodes)

    def place(self, *, strict: bool = False, models: Sequence[str] = ()) -> list[str]:
        suite = SimpleNamespace(
            gpus=GpuChoice(models=list(models)) if models else GpuChoice(), needs_cuda=True
        )
        sweep = SimpleNamespace(options=SimpleNamespace(strict=strict), suite=suite)
        request: Any = SimpleNamespace(sweep=sweep, workers=1)
        place: Any = place_of(request, Mock())
        return [node.node_id for node in place]


UNFIT = [("w3", "no answer within 180 s")]
BLIND = [("w3", f"{NO_CUDA}: old driver")]


def test_unfit_nodes_are_left_out_and_strictly_end_the_launch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = Nodes(monkeypatch, ["H200", "H200"], UNFIT)
    assert nodes.place() == ["0", "1"]
    assert nodes.printed == ["node left out: w3: no answer within 180 s"]
    with pytest.raises(SpecError, match="--strict: these nodes cannot take part: w3"):
        nodes.place(strict=True)
    assert Nodes(monkeypatch, ["H200"]).place(strict=True) == ["0"]


@pytest.mark.parametrize(
    ("unfit", "error"), [(BLIND, NeedsGpuError), (BLIND + UNFIT, SpecError), (UNFIT, SpecError)]
)
def test_without_a_node_the_launch_ends_and_needs_a_gpu_if_that_is_all(
    monkeypatch: pytest.MonkeyPatch, unfit: Sequence[tuple[str, str]], error: type[Exception]
) -> None:
    with pytest.raises(SpecError, match="no node can take part: w3: ") as raised:
        Nodes(monkeypatch, [], unfit).place()
    assert raised.type is error


def test_a_launch_is_for_one_model_and_a_model_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = Nodes(monkeypatch, ["H200", "A100", "H200"])
    assert nodes.place(models=["H200"]) == ["0", "2"]
    assert nodes.printed == []
    assert nodes.place(models=["A100", "B200"]) == ["1"]
    assert nodes.printed == ["gpus.models: no node has a GPU called B200"]
    with pytest.raises(SpecError, match="--strict: no node has a GPU called B200"):
        nodes.place(models=["A100", "B200"], strict=True)


@pytest.mark.parametrize(
    ("inside", "allows", "refused"),
    [(True, False, True), (True, True, False), (False, False, False)],
)
def test_a_job_inside_an_open_ray_is_refused(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    inside: bool,
    allows: bool,
    refused: bool,
) -> None:
    """What sent a job has checked that already."""
    request = SimpleNamespace(inside=inside, allow_unauthenticated=allows)
    ray = Mock()

    def refuse(address: str) -> None:
        raise SpecError("anybody may run code here")

    monkeypatch.setattr(driver, "read_request", lambda _: request)
    monkeypatch.setattr(driver, "ray", ray)
    monkeypatch.setattr(driver, "refuse_open_ray", refuse)
    code = drive(lambda *_: Ended(exit_code=ExitCode.FINE))
    assert code == (ExitCode.USAGE if refused else ExitCode.FINE)
    assert ("anybody may run code here" in capsys.readouterr().out) is refused
    environment = ray.init.call_args.kwargs["runtime_env"]
    assert (environment is not None) is inside


@pytest.mark.parametrize("kind", ["remote", "nightly"])
def test_a_driver_ends_with_the_code_of_its_launch(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By which Ray shows the job as succeeded or failed."""

    def end(code: int) -> None:
        raise SystemExit(code)

    for module in (driver, job):
        monkeypatch.setattr(module, "read_request", lambda _: Mock())
    monkeypatch.setattr("ray.init", Mock(side_effect=SpecError("no Ray here")))
    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.delitem(sys.modules, f"cudnn_sweep.orchestrator.{kind}.driver", raising=False)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(f"cudnn_sweep.orchestrator.{kind}.driver", run_name="__main__")
    assert ended.value.code == ExitCode.USAGE
