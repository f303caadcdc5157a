"""`sweep advise` over several levers, on a made-up GPU: its stages, its answer, and a race that is cut."""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from cudnn_sweep.analysis.results.advice import ConfigTrials
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.planning.decided import Standing
from cudnn_sweep.orchestrator.running.run_sweep import RunSession
from cudnn_sweep.orchestrator.steps.advising import advise
from cudnn_sweep.orchestrator.steps.levers import (
    LINES,
    OWN,
    Changes,
    changes_of,
    config_of,
    lines_of,
    next_configs,
)
from cudnn_sweep.orchestrator.steps.racing import _failed, jobs_s
from cudnn_sweep.orchestrator.steps.sequence import answer_step
from cudnn_sweep.orchestrator.steps.step_options import AdviseOptions
from cudnn_sweep.workloads.cells.suite import SuiteSpec
from cudnn_sweep.workloads.precision import PRECISIONS
from cudnn_sweep.workloads.survey import Survey
from tests.fake_machine import FakeEffect, FakeMachine, FakeNoise, FakeScript

TODAY = date(2026, 1, 1)
STEP: dict[str, Any] = {
    "workload": "torch.nn:Conv2d",
    "input": ("2x3x32x32",),
    "argument": ("in_channels=3", "out_channels=4", "kernel_size=3"),
}
ON, LAST, GRAPH, COMPILE = (
    (("benchmark", "true"),),
    (("layout", "channels_last"),),
    (("execution", "cuda_graph"),),
    (("execution", "compile"),),
)
OFFERED = [*ON, *LAST, *GRAPH, *COMPILE]


class WithCompiler(FakeMachine):
    """A made-up GPU beside a compiler."""

    def look(self, suite: SuiteSpec, *, needs_cuda: bool = False) -> Survey:
        return replace(super().look(suite, needs_cuda=needs_cuda), compiler="g++")


def machine(*effects: FakeEffect, kind: type[FakeMachine] = FakeMachine) -> FakeMachine:
    noise = FakeNoise(night=0.0, process=0.002)
    script = FakeScript(noise=noise, effects=list(effects), trial_s=2.0)
    return kind(script=script, night=TODAY)


CLEAR = (
    FakeEffect(where={"execution": "cuda_graph"}, time=0.5),
    FakeEffect(where={"config_layout": "channels_last"}, time=0.8),
)


@pytest.fixture(autouse=True)
def _here(here: Path) -> None:
    """Results go to the folder that the command is typed in."""


def answered(place: FakeMachine, **changes: Any) -> tuple[int, dict[str, Any], str]:
    """Return the exit code, the answer as JSON, and the progress."""
    out, progress = io.StringIO(), io.StringIO()
    options = AdviseOptions(**STEP | {"json": True, "steps": 10**6} | changes)
    code = answer_step(
        advise, options, Console(file=progress, width=200), place, Console(file=out, width=10**6)
    )
    return code, json.loads(out.getvalue()), progress.getvalue()


def advised(ms: float, high: float = 0.9) -> Any:
    return SimpleNamespace(
        baseline_ms=10.0, candidate_ms=ms, step_ratio=ms / 10, step_ratio_high=high
    )


def test_the_first_stage_has_each_value_alone_and_none_that_compiles() -> None:
    assert next_configs({}, OFFERED) == [OWN, ON, LAST, GRAPH]


def test_the_next_stage_has_the_best_what_helps_together_and_what_differs_in_one_lever() -> None:
    rows: dict[Changes, Any] = {ON: advised(9.9, high=1.1), LAST: advised(9.0), GRAPH: advised(5.0)}
    assert next_configs(rows, OFFERED) == [
        OWN,
        GRAPH,
        tuple(sorted(GRAPH + LAST)),
        tuple(sorted(GRAPH + ON)),
        COMPILE,
    ]


def test_a_value_that_fails_alone_is_in_no_later_config() -> None:
    rows: dict[Changes, Any] = {ON: advised(9.0), LAST: advised(8.0), GRAPH: None}
    later = next_configs(rows, OFFERED)
    assert later == [OWN, LAST, tuple(sorted(LAST + ON)), tuple(sorted(LAST + COMPILE))]


def test_a_config_that_cannot_run_is_left_out_before_it_is_planned() -> None:
    rows: dict[Changes, Any] = {ON: advised(9.0), LAST: advised(8.0), GRAPH: advised(5.0)}
    together = tuple(sorted(GRAPH + LAST + ON))
    assert next_configs(rows, OFFERED)[2] == together
    assert together not in next_configs(rows, OFFERED, {together: "it cannot run"}.get)


def test_the_race_is_over_once_no_neighbour_of_the_best_is_left() -> None:
    rows: dict[Changes, Any] = {
        ON: advised(11, high=1.2),
        LAST: advised(12, high=1.3),
        GRAPH: advised(13, high=1.4),
    }
    assert next_configs(rows, OFFERED) == [OWN, COMPILE]
    assert next_configs(rows | {COMPILE: advised(14, high=1.5)}, OFFERED) == []
    assert next_configs(rows | {OWN: None}, OFFERED) == [], "the user's own config fails"


def test_a_config_and_its_changes_are_one_another() -> None:
    changes = tuple(sorted(GRAPH + LAST + ON))
    config = config_of(changes)
    assert (config.benchmark, config.layout, config.execution) == (
        True,
        "channels_last",
        "cuda_graph",
    )
    assert changes_of("benchmark=true layout=channels_last execution=cuda_graph") == changes
    assert changes_of("benchmark=false") == OWN


def test_each_value_has_lines_to_paste_and_volumes_their_own_format() -> None:
    assert {text for lever, text in LINES if lever == "precision"} == PRECISIONS.keys()
    (volumes,) = lines_of(LAST, 5, AdviseOptions(**STEP))
    assert "torch.channels_last_3d" in volumes
    assert (
        lines_of(GRAPH + ON, 4, AdviseOptions(**STEP))[0] == "torch.backends.cudnn.benchmark = True"
    )


def test_lines_fit_an_inference_step_and_a_precision_that_is_left() -> None:
    inference = AdviseOptions(**STEP, direction="inference", precision="bf16")
    lines = lines_of(GRAPH, 4, inference)
    assert not any(line.startswith("optimizer.") for line in lines)
    assert lines[0].startswith("static")
    assert (
        lines_of((("precision", "tf32"),), 4, inference)[0]
        == "# remove the code that now sets bf16"
    )


def test_the_users_own_config_stays_in_a_race_for_a_job() -> None:
    state = SimpleNamespace(state="raced_out", other_settings="benchmark=false")
    states: Any = [state, SimpleNamespace(state="raced_out", other_settings="benchmark=true")]
    assert Standing(states=states).out == {"benchmark=false", "benchmark=true"}
    assert Standing(states=states, stays="benchmark=false").out == {"benchmark=true"}


@pytest.mark.slow
def test_an_own_config_that_fails_is_named_with_its_reason() -> None:
    place = machine(FakeEffect(where={"benchmark": "false"}, status="out_of_memory"))
    code, answer, _ = answered(place, levers="benchmark,layout")
    assert (code, answer["advice"]) == (ExitCode.DOES_NOT_RUN, "fails")
    assert answer["configs"][0]["failure"] == "the script says so"


@pytest.mark.slow
def test_a_clear_race_names_all_that_helps_with_its_lines_and_is_answered_again() -> None:
    code, answer, progress = answered(machine(*CLEAR), levers="layout,execution")
    assert code == ExitCode.FINE
    assert answer["setting"] == {"execution": "cuda_graph", "layout": "channels_last"}
    assert "Stage 1: as it is, channels_last, cuda_graph; about" in progress
    assert "needs a C++ compiler" in answer["left_out"]["compile"]
    assert any("channels_last" in line for line in answer["lines"])
    chosen = next(row for row in answer["configs"] if row["changes"] == answer["setting"])["advice"]
    assert chosen["ratio_low"] <= chosen["ratio"] <= chosen["ratio_high"] < 1
    again = answered(machine(), from_store=True)
    assert again[1]["left_out"]["benchmark"] == "not raced"
    assert (again[0], again[1]["headline"]) == (code, answer["headline"])
    assert not again[2].count("Stage")


@pytest.mark.long
def test_a_long_start_pays_in_a_long_job_alone_and_what_fails_is_named() -> None:
    place = machine(
        FakeEffect(where={"execution": "cuda_graph"}, status="error"),
        FakeEffect(where={"execution": "compile"}, time=0.8, cold=50),
        FakeEffect(where={"execution": "reduce_overhead"}, status="error"),
        kind=WithCompiler,
    )
    _, long, _ = answered(place, levers="execution")
    assert long["setting"] == {"execution": "compile"}
    failed = [row["changes"]["execution"] for row in long["configs"] if row["advice"] is None]
    assert failed == ["cuda_graph", "reduce_overhead"]
    _, short, _ = answered(place, steps=10, from_store=True)
    assert short["setting"] == {}
    assert short["headline"].startswith("Leave your config as it is")


@pytest.mark.long
def test_an_own_config_that_runs_alone_is_left_as_it_is() -> None:
    place = machine(FakeEffect(where={"execution": "cuda_graph"}, status="error"))
    code, answer, _ = answered(place, levers="execution")
    assert (code, answer["setting"], answer["lines"]) == (ExitCode.FINE, {}, [])
    assert answer["headline"].startswith("Leave your config as it is. No allowed setting")
    assert [row["failure"] for row in answer["configs"]] == ["the script says so"]
    assert answer["step_times_ms"]


class Cut(FakeMachine):
    """A machine on which Ctrl-C comes as the second stage begins."""

    @contextmanager
    def opened(self, *given: Any) -> Iterator[RunSession]:
        store = given[0]
        if store.sweep_ids():
            raise KeyboardInterrupt
        with super().opened(*given) as run:
            yield run


def test_a_config_with_times_in_one_stage_is_none_that_fails() -> None:
    failures = [{"status": "killed", "message": "the stage was cut\nhere"}]
    assert _failed(ConfigTrials(times_ms=[5.0], failures=failures)) is None
    assert _failed(ConfigTrials(times_ms=None, failures=failures)) == "the stage was cut"
    assert _failed(ConfigTrials(times_ms=None, failures=None)) is None


@pytest.mark.slow
def test_a_race_that_was_cut_goes_on(tmp_path: Path) -> None:
    place = machine(*CLEAR)
    with pytest.raises(KeyboardInterrupt):
        answered(machine(*CLEAR, kind=Cut), levers="layout,execution")
    store = open_store("results")
    (first,) = store.sweep_ids()
    rows = store.stored_trials(first)
    _, answer, _ = answered(place, levers="layout,execution")
    assert answer["sweep_id"] == f"{first.rpartition('-')[0]}-*"
    assert open_store("results").stored_trials(first).keys() == rows.keys()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"levers": "benchmark,speed"}, "--levers: found 'speed', allowed: benchmark, layout"),
        ({"allow": "int8"}, "--allow: found 'int8', allowed: fp32, tf32"),
        ({"levers": "precision"}, "nothing to race: --allow must name another precision"),
        ({"ranks": 8, "levers": "layout"}, "--levers: allowed only if several levers are raced"),
        ({"levers": "benchmark", "same_bits": True}, "--same-bits: allowed only if"),
    ],
)
def test_unknown_names_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        answered(machine(), **changes)


def test_jobs_of_all_lengths_have_one_time_of_the_users_own_config() -> None:
    """It is from the config that has most blocks, here not that of the shortest job."""
    long = SimpleNamespace(blocks=4, job_steps=100)
    long_times = {"baseline_s": 1.0, "baseline_ms": 10.0, "candidate_s": 0.8, "candidate_ms": 8.0}
    vars(long).update(long_times)
    short = SimpleNamespace(**vars(long) | {"blocks": 2, "baseline_s": 1.2, "candidate_s": 0.5})
    rows: Any = {LAST: long, ON: short}
    assert jobs_s(rows) == {OWN: 1.0, LAST: 0.8, ON: 0.5}
    assert jobs_s(rows, 200)[OWN] == 2.0


@pytest.mark.long
def test_a_precision_is_raced_only_if_allowed_and_same_bits_exclude_other_bits() -> None:
    place = machine(FakeEffect(where={"config_precision": "amp_bf16"}, time=0.5, error=9))
    _, answer, _ = answered(place, levers="precision", allow="amp_bf16")
    assert answer["setting"] == {"precision": "amp_bf16"}
    _, same, _ = answered(place, levers="layout", allow="amp_bf16", same_bits=True, from_store=True)
    assert same["setting"] == {}
