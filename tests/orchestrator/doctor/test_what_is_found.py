"""What each check of `sweep doctor` finds on machines, readings and pairs that are made up."""

import shutil
from collections import namedtuple
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cudnn_sweep.analysis.results.verdicts import Verdict
from cudnn_sweep.orchestrator.doctor import checks, examine
from cudnn_sweep.orchestrator.doctor.checks import (
    LEAST_FREE_GB,
    Check,
    check_compiler,
    check_gpus,
    ok,
)
from cudnn_sweep.orchestrator.doctor.examine import (
    MANY,
    _compared,
    _measure,
    _plan,
    _self_test,
    check_pair,
    check_pairs,
)
from cudnn_sweep.orchestrator.errors import ServerError, SweepBusyError
from cudnn_sweep.orchestrator.slots.slot import ForkedSlot
from cudnn_sweep.workloads.hardware.environment import Environment
from cudnn_sweep.workloads.records.measured import GpuTelemetry
from cudnn_sweep.workloads.survey import Survey
from tests.orchestrator.blank import blank


def machine(*gpus: str, **of: Any) -> Survey:
    where: dict[str, Any] = {"device": "cuda" if gpus else "cpu", "cuda": "13.0"}
    for name in ("cudnn", "driver", "max_sm_clock_mhz"):
        where[name] = of.pop(name, None)
    uuids = [f"GPU-{number}" for number in range(len(gpus))]
    environment = blank(Environment, **where)
    usual: dict[str, Any] = {"gpus": list(gpus), "gpu_uuids": uuids, "workloads": {}}
    return Survey(environment=environment, **usual | of)


def reading(**of: Any) -> GpuTelemetry:
    usual: dict[str, Any] = {"telemetry": "nvml", "sm_clock_mhz": 1980.0, "other_processes": 0}
    return GpuTelemetry(**usual | of)


def found(of: Survey, *readings: GpuTelemetry, source: Any = "nvml") -> dict[str, Check]:
    left = iter(readings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "_read", lambda *_: next(left))
        patch.setattr(checks, "pinning_of", lambda *_: None)
        return {check.name: check for check in check_gpus(of, source)}


@pytest.mark.parametrize(
    ("of", "readings", "source", "states"),
    [
        (machine(), [GpuTelemetry()], "nvml", {"CUDA": "warning", "NVML": "warning"}),
        (
            machine("H200", cudnn=91900, driver="580"),
            [reading()],
            "nvml",
            {"CUDA": "ok", "cuDNN": "ok", "driver": "ok", "NVML": "ok", "GPU 0 cores": "warning"}
            | {"GPU 0 clocks": "ok", "GPU 0 users": "ok"},
        ),
        (
            machine("H200"),
            [GpuTelemetry()],
            "nvml",
            {"CUDA": "ok", "cuDNN": "problem", "driver": "warning", "NVML": "warning"}
            | {"GPU 0 cores": "warning"},
        ),
        (
            machine("H200", "H200", cudnn=91900, driver="580", nccl="2.27", peer_access=True),
            [reading(), GpuTelemetry()],
            "nvml",
            {"CUDA": "ok", "cuDNN": "ok", "driver": "ok", "ranks": "ok", "NVML": "warning"}
            | {"GPU 0 cores": "warning", "GPU 1 cores": "warning"}
            | {"GPU 0 clocks": "ok", "GPU 0 users": "ok"},
        ),
        (
            machine("H200", "A100", cudnn=91900, driver="580", peer_access=True),
            [reading(), reading(warnings=["throttled"])],
            "fake_calm",
            {
                "CUDA": "problem",
                "cuDNN": "ok",
                "driver": "ok",
                "ranks": "problem",
                "NVML": "warning",
            }
            | {"GPU 0 cores": "warning", "GPU 1 cores": "warning"}
            | {"GPU 0 clocks": "ok", "GPU 0 users": "ok"}
            | {"GPU 1 clocks": "warning", "GPU 1 users": "ok"},
        ),
        (
            machine("H200", "H200", cudnn=91900, driver="580", nccl="2.27", peer_access=False),
            [reading(sm_clock_mhz=None, other_processes=None), reading(warnings=["shared_gpu"])],
            "nvml",
            {"CUDA": "ok", "cuDNN": "ok", "driver": "ok", "ranks": "warning", "NVML": "ok"}
            | {"GPU 0 cores": "warning", "GPU 1 cores": "warning"}
            | {"GPU 0 clocks": "warning", "GPU 0 users": "warning"}
            | {"GPU 1 clocks": "ok", "GPU 1 users": "warning"},
        ),
    ],
)
def test_gpus_are_fit_if_they_are_alike_reported_and_alone(
    of: Survey, readings: Sequence[GpuTelemetry], source: str, states: dict[str, str]
) -> None:
    seen = found(of, *readings, source=source)
    assert {name: check.state for name, check in seen.items()} == states
    for check in seen.values():
        assert bool(check.advice) is (check.state != "ok")


@pytest.mark.parametrize(
    ("of", "text"),
    [
        ({}, "SM clock 1980 MHz, throttle reasons: none"),
        ({"temperature_c": 41}, "SM clock 1980 MHz, 41 °C, throttle reasons: none"),
        ({"throttle_reasons": ["a", "b"]}, "SM clock 1980 MHz, throttle reasons: a, b"),
    ],
)
def test_clocks_are_shown_with_what_is_known(of: dict[str, Any], text: str) -> None:
    assert found(machine("H200"), reading(**of))["GPU 0 clocks"].found == text
    of_most = found(machine("H200", max_sm_clock_mhz=2000), reading(**of))["GPU 0 clocks"]
    assert of_most.found == text.replace(" MHz", " of at most 2000 MHz", 1)


@pytest.mark.parametrize(
    ("why", "text", "advice"),
    [
        (None, "torch finds no GPU", "check that nvidia-smi lists one"),
        ("no driver: install one", "no driver", "install one"),
    ],
)
def test_why_there_is_no_gpu_comes_with_what_to_do(why: str | None, text: str, advice: str) -> None:
    cuda = found(machine(no_cuda=why), GpuTelemetry())["CUDA"]
    assert (cuda.found, cuda.advice) == (
        f"no CUDA: settings have no effect here; {text}",
        advice,
    )


@pytest.mark.parametrize(
    ("compiler", "gpus", "triton", "state", "text"),
    [
        ("g++", ["H200"], "3.5", "ok", "g++; Triton 3.5"),
        ("g++", ["H200"], None, "warning", "g++; no Triton"),
        ("g++", [], None, "ok", "g++; no Triton"),
        (None, ["H200"], "3.5", "warning", "no C++ compiler for torch.compile; Triton 3.5"),
        (None, [], None, "warning", "no C++ compiler for torch.compile; no Triton"),
    ],
)
def test_a_compiled_execution_needs_a_compiler_and_on_a_gpu_triton(
    monkeypatch: pytest.MonkeyPatch,
    compiler: str | None,
    gpus: list[str],
    triton: str | None,
    state: str,
    text: str,
) -> None:
    monkeypatch.setattr(checks, "installed_version", lambda _: triton)
    check = check_compiler(machine(*gpus, compiler=compiler))
    assert (check.state, check.found) == (state, text)


@pytest.mark.parametrize(
    ("free_gb", "state"),
    [(LEAST_FREE_GB + 0.1, "ok"), (LEAST_FREE_GB, "ok"), (LEAST_FREE_GB - 0.1, "warning")],
)
def test_a_disk_with_little_room_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free_gb: float, state: str
) -> None:
    looked: list[Path] = []
    usage = namedtuple("usage", "free")

    def disk_usage(folder: Path) -> Any:
        looked.append(folder)
        return usage(free_gb * 1e9)

    monkeypatch.setattr(shutil, "disk_usage", disk_usage)
    assert checks._room("results", tmp_path / "not/there").state == state
    assert looked == [tmp_path], "the folder that is there has the disk"


@pytest.mark.parametrize(
    ("pairs", "low", "high", "verdict", "state", "words"),
    [
        (1, 0.99, 1.01, "equivalent", "warning", "in a single pair, too few to judge"),
        (2, 0.99, 1.01, "equivalent", "ok", "over 2 pairs: differences of 3% can be detected"),
        (2, None, 1.01, "equivalent", "warning", "in a single pair, too few to judge"),
        (2, 0.99, None, "equivalent", "warning", "in a single pair, too few to judge"),
        (5, 0.9, 1.1, "inconclusive", "warning", "cannot be detected here"),
        (5, 1.1, 1.3, "hurts", "problem", "more than chance explains, although nothing differs"),
        (5, 1.1, 1.3, None, "problem", "more than chance explains, although nothing differs"),
    ],
)
def test_identical_configs_must_not_differ(
    pairs: int,
    low: float | None,
    high: float | None,
    verdict: str | None,
    state: str,
    words: str,
) -> None:
    check = _compared("wall", pairs, 0.97, low, high, verdict)
    assert (check.name, check.state) == ("self-test, wall", state)
    assert check.found.startswith("two identical configs differ by 3.0% ")
    assert words in check.found


@pytest.mark.parametrize(
    ("pairs", "half", "needed"),
    [
        (4, 1.04, "about `replicates: 16`"),
        (10, 1.04, "about `replicates: 40`"),
        (3, 1.021, "about `replicates: 6`"),
        (25, 1.04, f"about `replicates: {MANY}`"),
        (26, 1.04, f"over {MANY} replicates"),
    ],
)
def test_an_interval_that_is_too_wide_says_how_many_replicates_it_takes(
    monkeypatch: pytest.MonkeyPatch, pairs: int, half: float, needed: str
) -> None:
    """An interval that is twice as wide, in logarithms, as the effect takes four times as many."""
    effect = 1.04**0.5 - 1
    monkeypatch.setattr(examine, "MIN_EFFECT", effect + 1e-12)
    check = _compared("wall", pairs, 1.0, 1 / half, half, "inconclusive")
    assert check.advice.endswith(f"a sweep needs {needed}")


@pytest.mark.parametrize(
    ("wall", "device", "names"),
    [
        (1.0, 1.0, ["self-test, wall", "self-test, device"]),
        (1.0, None, ["self-test, wall"]),
        (None, 1.0, ["self-test, device"]),
        (None, None, []),
    ],
)
def test_a_pair_is_judged_by_each_clock_that_it_has(
    wall: float | None, device: float | None, names: list[str]
) -> None:
    seen: Any = SimpleNamespace(
        blocks=3,
        ratio=wall,
        ratio_low=0.99,
        ratio_high=1.01,
        wall_statistical_verdict="equivalent",
        device_ratio=device,
        device_ratio_low=0.9,
        device_ratio_high=1.1,
        device_statistical_verdict="hurts",
    )
    found = list(check_pair(seen))
    assert [check.name for check in found] == names
    states = {"self-test, wall": "ok", "self-test, device": "problem"}
    assert [check.state for check in found] == [states[name] for name in names]


def record(status: str = "ok", *warnings: str, message: str | None = None) -> Any:
    return SimpleNamespace(status=status, message=message, warnings=list(warnings) or None)


@pytest.mark.parametrize(
    ("records", "pairs", "found"),
    [
        ([record()] * 2, [ok("pair", "fine")], [("pair", "fine")]),
        ([record()] * 2, [], [("self-test", "no pair can be judged: the GPU was shared or")]),
        (
            [record("crash", message="SIGSEGV"), record("error", message="later")],
            [],
            [("self-test", "a trial ended with crash: SIGSEGV")],
        ),
        (
            [record(), record("crash")],
            [ok("pair", "fine")],
            [("self-test", "a trial ended with crash: no message"), ("pair", "fine")],
        ),
        (
            [record("ok", "throttled"), record("ok", "throttled", "shared_gpu"), record()],
            [ok("pair", "fine")],
            [
                ("pair", "fine"),
                ("self-test, GPU", "shared_gpu in 1 of 3 trials"),
                ("self-test, GPU", "throttled in 2 of 3 trials"),
            ],
        ),
    ],
)
def test_a_self_test_names_the_first_failure_and_counts_warnings(
    records: list[Any], pairs: list[Check], found: list[tuple[str, str]]
) -> None:
    checked = list(_self_test(records, pairs))
    assert len(checked) == len(found)
    by_text = sorted((check.name, check.found) for check in checked)
    for (name, text), (wanted, begins) in zip(by_text, sorted(found), strict=True):
        assert name == wanted and text.startswith(begins)
    if pairs and len(found) > 2:
        assert checked[0].name == "pair"


@pytest.mark.parametrize(
    ("seconds", "statuses", "pairs"),
    [
        (2.0, [], 3),
        (0.0, [], 1),
        (99.0, ["ok", "ok", "error"], 2),
        (99.0, ["ok", "ok", "ok", "crash"], 2),
        (99.0, ["error"], 1),
        (2.5, [], 3),
    ],
)
def test_pairs_are_measured_until_the_time_is_over_or_a_trial_fails(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    seconds: float,
    statuses: list[str],
    pairs: int,
) -> None:
    """Each pair takes a second."""
    ticks, left = count(), iter([*statuses, *["ok"] * 1000])
    written: list[Any] = []
    monkeypatch.setattr(examine, "monotonic", lambda: float(next(ticks)))
    slot = SimpleNamespace(
        measure=lambda trials, _: [record(next(left)) for _ in trials], close=lambda: None
    )
    monkeypatch.setattr(ForkedSlot, "open", lambda *_: slot)
    monkeypatch.setattr(examine, "open_store", lambda _: SimpleNamespace(write=written.append))
    monkeypatch.setattr(Verdict, "of", lambda *_, **__: ["verdict"])
    plan = _plan(machine("H200"), "nvml")
    records, verdicts = _measure(plan, tmp_path, seconds)
    assert len(records) == 2 * pairs == len(written)
    assert verdicts == ["verdict"]


@pytest.mark.parametrize(
    ("gpus", "error", "locked", "checked"),
    [
        (["H200", "H200"], None, ["GPU-0"], "pair"),
        ([], None, ["cpu"], "pair"),
        (
            ["H200"],
            SweepBusyError("sweep june measures"),
            ["GPU-0"],
            "left out: sweep june measures",
        ),
        (["H200"], ServerError("died"), ["GPU-0"], "died"),
    ],
)
def test_a_self_test_measures_on_the_first_gpu_and_disturbs_no_sweep(
    monkeypatch: pytest.MonkeyPatch,
    gpus: list[str],
    error: Exception | None,
    locked: list[str],
    checked: str,
) -> None:
    devices: list[str] = []

    def lock(of: list[str]) -> Any:
        devices.extend(of)
        return nullcontext()

    def measure(*_: object) -> Any:
        if error is not None:
            raise error
        return [], ["verdict"]

    monkeypatch.setattr(examine, "measuring_lock", lock)
    monkeypatch.setattr(examine, "_measure", measure)
    monkeypatch.setattr(examine, "check_pair", lambda _: [ok("pair", "pair")])
    (check,) = check_pairs(machine(*gpus), "nvml", 1.0)
    assert check.found == checked and devices == locked
    states = {SweepBusyError: "warning", ServerError: "problem"}
    assert check.state == states.get(type(error), "ok")  # type: ignore[arg-type]
