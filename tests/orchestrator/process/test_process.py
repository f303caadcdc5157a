"""A fresh process a trial: whatever it does, the next one is clean."""

import os
from pathlib import Path
from typing import Any

import pytest

from cudnn_sweep.orchestrator.process.client import ForkServer
from cudnn_sweep.orchestrator.process.protocol import Outcome, Request, TrialJob
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.measurement import Measurement, MeasureSpec, TrialRequest
from cudnn_sweep.workloads.errors import TRY, WorkloadError
from tests import processes
from tests.makers import MakePlan, RunTrial

SHORT = MeasureSpec(warmup_s=0.0, steady_budget_s=0.02, calibrate=False, timeout_s=1.0)
UNHURRIED = SHORT.model_copy(update={"timeout_s": 100.0})  # whose question is not one of time
LITTLE_MEMORY = UNHURRIED.model_copy(update={"host_memory_limit_mib": 8192})
WITH_ALL_PARTS = UNHURRIED.model_copy(
    update={"calibrate": True, "open_cold_shapes": 1, "open_steps": 5}
)


def measured(outcome: Outcome) -> Measurement:
    assert outcome.reply is not None and outcome.reply.measured is not None, outcome.message
    return outcome.reply.measured


def measured_well(outcome: Outcome) -> Measurement:
    assert outcome.status == "ok", outcome.message
    return measured(outcome)


FAULTS = {
    "raises": ("error", "ValueError: the user's step is wrong (faulty.py:"),
    "raises_what_has_no_text": ("error", "HasNoText: its __str__ raised ValueError (faulty.py:"),
    "is_killed": ("killed", "SIGKILL"),
    "segfaults": ("crash", "SIGSEGV (Segmentation fault); its last output: last words"),
    "allocates_too_much": ("out_of_memory", "can't allocate memory"),
    "writes_to_its_reply": ("error", "the user's code wrote to the pipe of the process's replies"),
    "hangs": ("timeout", "no result after 1 s"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_ends_its_process_alone(run_trial: RunTrial, faulty: str, fault: str) -> None:
    measure = {"hangs": SHORT, "allocates_too_much": LITTLE_MEMORY}.get(fault, UNHURRIED)
    outcome = run_trial(f"{faulty}:{fault}", measure=measure)
    status, message = FAULTS[fault]
    assert outcome.status == status
    assert message in (outcome.message or "")

    after = run_trial(f"{faulty}:fine")
    assert after.status == "ok"
    assert after.pid != outcome.pid
    assert "sleep 1234.5" not in map(processes.command, processes.every())


def test_end_of_what_a_failed_trial_printed_is_kept(run_trial: RunTrial, faulty: str) -> None:
    """With the traceback, though its standard error is closed, and nothing of what went well."""
    kept = run_trial(f"{faulty}:prints_much_and_raises").last_output or ""
    assert kept.startswith("y") and 4000 < len(kept.encode()) <= 4096
    printed, traceback = kept.split("\n", 1)
    assert printed.endswith("y \x1b[31m \xe9 </script> last words")
    assert traceback.startswith("Traceback (most recent call last):")
    assert traceback.endswith("ValueError: and then it is wrong")
    assert "in prints_much_and_raises" in traceback
    assert run_trial(f"{faulty}:segfaults").last_output == "last words"
    assert run_trial(f"{faulty}:says_half_a_character").last_output
    assert run_trial(f"{faulty}:fine").last_output is None


def test_message_is_stored_whatever_it_holds_and_cut(run_trial: RunTrial, faulty: str) -> None:
    half = run_trial(f"{faulty}:says_half_a_character")
    assert half.status == "error" and "half \\ud800 of it" in str(half.message)
    long = run_trial(f"{faulty}:says_too_much")
    assert long.status == "error" and len(str(long.message)) < 2200
    assert "characters more)" in str(long.message)


def test_trial_cannot_answer_in_its_servers_place(run_trial: RunTrial, faulty: str) -> None:
    """It can lie about itself; its server still tells what became of it, and of the next."""
    outcome = run_trial(f"{faulty}:answers_for_its_server")
    assert outcome.pid > 0 and outcome.started_at <= outcome.ended_at
    assert run_trial(f"{faulty}:fine").status == "ok", "the server still understands what it reads"


FORKS = """
import os
from pathlib import Path
from torch import nn

os.fork()

class Net(nn.Conv2d):
    def __init__(self):
        super().__init__(1, 1, 3)
        with Path(__file__).with_suffix(".built").open("a") as built:
            built.write(f"{os.getpid()}\\n")
"""


def test_copy_that_a_module_forks_of_its_trial_measures_nothing(
    run_trial: RunTrial, tmp_path: Path
) -> None:
    file = tmp_path / "forks.py"
    file.write_text(FORKS)
    outcome = run_trial(f"{file}:Net", measure=UNHURRIED, input="1x1x8x8")
    assert outcome.status == "ok", outcome.message
    assert set(file.with_suffix(".built").read_text().split()) == {str(outcome.pid)}


def test_descendants_end_with_the_trial(run_trial: RunTrial, faulty: str) -> None:
    assert run_trial(f"{faulty}:leaves_a_descendant").status == "ok"
    assert "sleep 1234.5" not in map(processes.command, processes.every())


JOINS = """
import torch
from torch import nn

class Joins(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(1, 1, 3, padding=1)

    def forward(self, picture):
        half = nn.functional.max_pool2d(self.convolution(picture), 2)
        return torch.cat([picture, nn.functional.interpolate(half, scale_factor=2)], dim=1)
"""


def test_sizes_that_a_network_cannot_take_are_explained(
    run_trial: RunTrial, tmp_path: Path
) -> None:
    file = tmp_path / "joins.py"
    file.write_text(JOINS)
    free = run_trial(f"{file}:Joins", input="1x1x80x80", regime="fresh")
    assert free.status == "error" and free.message is not None
    assert "Sizes of tensors must match" in free.message
    of_regime = "`multiple: 32`: some sizes of regime fresh seem not to fit the network"
    assert free.message.endswith(f"{TRY}{of_regime}")
    even = run_trial(f"{file}:Joins", input="1x1x96x96", regime={"fresh": {"multiple": 32}})
    assert even.status == "ok", even.message
    fixed = run_trial(f"{file}:Joins", input="1x1x33x33")
    joined = "multiples of 32 with --input: tensors that are combined differ in size"
    assert fixed.message is not None and fixed.message.endswith(f"{TRY}{joined}")


TAKES = """
from torch import nn

class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(9, 2)

    def forward(self, picture):
        return self.head(picture)

class Two(Wide):
    def forward(self, a, b):
        return self.head(a + b)
"""


def test_an_error_names_the_users_line_and_what_else_to_give(
    run_trial: RunTrial, tmp_path: Path
) -> None:
    file = tmp_path / "takes.py"
    file.write_text(TAKES)
    two = run_trial(f"{file}:Two", input="1x1x8x8")
    assert two.status == "error" and two.message is not None
    assert "missing 1 required positional argument: 'b'" in two.message
    assert f"{TRY}--inputs '{{a: {{shape: [batch, channels, height, width]}}, b: " in two.message
    wide = run_trial(f"{file}:Wide", input="1x1x8x8")
    assert wide.message is not None
    assert wide.message.partition(TRY)[0].endswith("(takes.py:10 in forward)")


BUCKETS = """
from dataclasses import dataclass
from cudnn_sweep.workloads.regime import ShapeRegime

@dataclass(frozen=True, kw_only=True)
class Buckets(ShapeRegime):
    varies = "batch and space"
    step: int = 8

    def period(self, base):
        return base, (base[0] // 2, base[1], base[2] + self.step, base[3])
"""


def test_a_regime_of_ones_own_is_run_in_the_trial_alone(
    run_trial: RunTrial, plan_of: MakePlan, tmp_path: Path
) -> None:
    net, rules = tmp_path / "nets.py", tmp_path / "rules.py"
    net.write_text(JOINS)
    rules.write_text(BUCKETS)
    asked: dict[str, Any] = {"input": "2x1x16x16", "regime": {f"{rules}:Buckets": {"step": 16}}}
    outcome = run_trial(f"{net}:Joins", **asked)
    found = measured_well(outcome)
    assert [call.shape for call in found.cold or ()] == [[2, 1, 16, 16], [1, 1, 32, 16]]
    rules.write_text(f"{BUCKETS}# edited")
    again = run_trial(f"{net}:Joins", **asked)
    assert measured(again).workload_hash != found.workload_hash
    with pytest.raises(WorkloadError, match="unknown parameter 'stp'; allowed: step"):
        plan_of(f"{net}:Joins", **{**asked, "regime": {f"{rules}:Buckets": {"stp": 16}}})
    with pytest.raises(WorkloadError, match="Joins is a workload: write it under `workload`"):
        plan_of(f"{net}:Joins", **{**asked, "regime": f"{net}:Joins"})


LOADS = """
import torch
from cudnn_sweep.workloads.workload import TimedStep, workload

def step(sizes):
    def build(context):
        return TimedStep(
            prepare=lambda shape: {"labels": torch.zeros(shape[0]), "images": torch.zeros(sizes or shape)},
            run=lambda batch: batch["images"] + 1,
        )
    return workload(directions=("forward",), input_shape=(2, 3, 8, 8))(build)

as_asked, of_its_own = step(None), step((2, 3, 16, 16))
features, features_of_its_own = step((2, 8, 8, 40)), step((2, 8, 9, 40))

@workload(directions=("forward",), input_shape=(2, 3, 8, 8))
def listed(context):
    return TimedStep(prepare=lambda shape: [torch.zeros(3, 8, 8)] * shape[0], run=lambda images: images[0] + 1)

class Diverges(torch.nn.Module):
    def __init__(self, first=5):
        super().__init__()
        self.factor = torch.nn.Parameter(torch.tensor(1.0))
        self.first = first
        self.calls = 0

    def forward(self, images):
        self.calls += 1
        return images * self.factor * (float("inf") if self.calls > self.first else 1.0)

class Past(torch.nn.Module):
    def forward(self, images):
        return images

@workload(directions=("forward_backward",), input_shape=(2, 3, 8, 8), recomputes=True)
def past_forward(context):
    weight = context.random((2, 3, 8, 8)).requires_grad_()
    return TimedStep(prepare=context.random, run=lambda images: (images * weight).sum().backward())
"""


def test_a_workload_that_makes_other_shapes_is_told(run_trial: RunTrial, tmp_path: Path) -> None:
    file = tmp_path / "loads.py"
    file.write_text(LOADS)
    right, wrong = ("as_asked", "features", "listed"), ("of_its_own", "features_of_its_own")
    for name in (*right, *wrong):
        expected = ["other_shapes"] if name in wrong else []
        assert measured_well(run_trial(f"{file}:{name}")).telemetry.warnings == expected, name


def test_numbers_that_are_not_finite_are_a_warning(run_trial: RunTrial, tmp_path: Path) -> None:
    file = tmp_path / "loads.py"
    file.write_text(LOADS)
    for first, warnings in ((5, ["diverged"]), (0, ["not_finite"])):
        outcome = run_trial(
            f"{file}:Diverges",
            input="2x3x8x8",
            direction="training",
            precision="fp32",
            model={"arguments": {"first": first}},
        )
        assert measured_well(outcome).telemetry.warnings == warnings


@pytest.mark.parametrize(
    ("name", "axes", "message"),
    [
        (
            "Past",
            {"input": "2x3x8x8", "direction": "inference"},
            "has no parameters and ran no operation, so there is nothing to time",
        ),
        (
            "past_forward",
            {"state": "checkpoint"},
            "state checkpoint was not in force: the step called its model without `context.forward`",
        ),
    ],
)
def test_a_trial_that_measures_something_else_fails(
    run_trial: RunTrial, tmp_path: Path, name: str, axes: dict[str, Any], message: str
) -> None:
    file = tmp_path / "loads.py"
    file.write_text(LOADS)
    outcome = run_trial(f"{file}:{name}", **axes)
    assert outcome.status == "error" and message in (outcome.message or "")


@pytest.mark.slow
def test_the_training_step_of_the_document_runs(run_trial: RunTrial) -> None:
    file = Path(__file__).parents[3] / "docs" / "examples" / "segmenter" / "my_training.py"
    regime: dict[str, dict[str, float]] = {"cycle": {"sizes": 2, "step": 16, "multiple": 8}}
    outcome = run_trial(f"{file}:train", precision="amp_fp16", regime=regime)
    found = measured_well(outcome)
    assert found.loss_first is not None and found.distinct_shapes == 2
    assert found.telemetry.warnings == []


def test_partial_measurement_survives_a_failure(run_trial: RunTrial, faulty: str) -> None:
    config = Config(benchmark=True)
    found = measured(run_trial(f"{faulty}:raises", config=config))
    assert found.config == config and "one_time" in found.phases_s


def test_code_that_fails_is_known(run_trial: RunTrial, faulty: str) -> None:
    names = ("raises", "is_never_built", "fine")
    hashes = {measured(run_trial(f"{faulty}:{name}")).workload_hash for name in names}
    assert len(hashes) == 1 and None not in hashes


@pytest.mark.slow
@pytest.mark.parametrize(
    "axes",
    [
        {"workload": "mnist", "precision": "amp_bf16", "layout": "channels_last"},
        {"workload": "conv", "problem": "tutorials/rgb224", "precision": "bf16"},
        {"workload": "conv", "problem": "tutorials/rgb224", "regime": "fresh"},
    ],
    ids=lambda axes: "-".join(axes.values()).replace("/", "-"),
)
def test_bundled_workload_imports_nothing_after_the_fork(
    run_trial: RunTrial, axes: dict[str, str]
) -> None:
    others: dict[str, Any] = {name: value for name, value in axes.items() if name != "workload"}
    outcome = run_trial(axes["workload"], measure=WITH_ALL_PARTS, **others)
    assert outcome.status == "ok", outcome.message
    assert outcome.reply is not None
    assert outcome.reply.imported == []


def test_flags_precision_and_threads_are_applied_and_read_back(run_trial: RunTrial) -> None:
    config = Config(
        enabled=False, benchmark=True, benchmark_limit=3, deterministic=True, heuristic_mode_b=True
    )
    for precision, conv_fp32 in {"fp32": "ieee", "tf32": "tf32"}.items():
        found = measured(run_trial("noop", config=config, precision=precision))
        assert (found.config, found.conv_fp32_precision) == (config, conv_fp32)
        assert found.threads == len(os.sched_getaffinity(0)), "every core that it may use"


def test_backward_pass_runs_in_the_callers_thread_where_that_is_asked_alone(
    run_trial: RunTrial, faulty: str
) -> None:
    asks = f"{faulty}:wants_backward_in_its_own_thread"
    config = Config(backward_in_caller=True)
    assert measured_well(run_trial(asks, config=config)).config == config
    otherwise = run_trial(asks)
    assert otherwise.message is not None and "has a thread of its own" in otherwise.message


@pytest.mark.long
def test_shell_variables_do_not_change_a_config(
    plan_of: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_CUDNN_USE_HEURISTIC_MODE_B", "1")
    monkeypatch.setenv("TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT", "1")
    (first, *_) = plan_of("noop", configs=(Config(),)).trials
    trial = TrialRequest(
        cell=first.cell, config=first.config, measure=SHORT, seed=0, compute_cache=None
    )
    with ForkServer(survey_only=True) as server:
        outcome = server.run(Request(job=TrialJob(trial=trial), timeout_s=100))
    assert measured_well(outcome).config == Config()


@pytest.mark.slow
@pytest.mark.measuring
def test_time_of_a_trial_is_accounted_for(run_trial: RunTrial) -> None:
    outcome = run_trial("mnist", measure=WITH_ALL_PARTS.model_copy(update={"steady_budget_s": 0.3}))
    phases = measured(outcome).phases_s
    parts = ("start", "one_time", "build", "cold", "calibration", "steady", "checks")
    assert set(phases) == set(parts)
    assert phases["steady"] >= 0.3
    spent = sum(phases.values()) + (outcome.exit_s or 0)
    assert spent <= outcome.process_s
    assert outcome.process_s - spent < 0.2


@pytest.mark.parametrize(
    ("workload", "said"),
    [("dies_in_the_checks", "SIGSEGV"), ("refuses_the_checks", "ValueError: nothing to see")],
)
def test_untimed_checks_take_nothing_that_was_measured(
    run_trial: RunTrial, faulty: str, workload: str, said: str
) -> None:
    outcome = run_trial(f"{faulty}:{workload}")
    assert (outcome.status, outcome.message) == ("ok", None)
    assert measured(outcome).wall.steady_wall_ms is not None
    assert said in (measured(outcome).checks_error or "")
    assert run_trial(f"{faulty}:fine").status == "ok"


def test_infinite_loss_is_recorded_as_infinite(run_trial: RunTrial, faulty: str) -> None:
    assert measured(run_trial(f"{faulty}:diverges")).loss_first == float("inf")
