from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cudnn_sweep.analysis.proving import detection_figures, realities, replay, simulation
from cudnn_sweep.analysis.proving.noise import NOT_PROMISED, PROMISED
from cudnn_sweep.analysis.proving.realities import REALITIES
from cudnn_sweep.analysis.proving.simulated_nights import HELD_TO_TARGETS, OTHERS
from cudnn_sweep.analysis.proving.simulation import EMPTY_BLOCKS, EMPTY_SCATTER
from cudnn_sweep.orchestrator.cli import app

STORED = Path(__file__).parents[3] / "docs/results/h200-2026-11-21/quick"
FEW_NIGHTS = ["validate", "nights", "--series", "20", "--nights", "30"]
SMALL = ["validate", "statistics", "--cells", "60", "--blocks", "3"]


@pytest.fixture
def runner() -> CliRunner:
    return CliRunner()


@cache
def until_decided(cells: int, looks: tuple[int, ...], seed: int) -> list[simulation.Figures]:
    return [simulation.try_until_decided(PROMISED[0], cells, looks, seed)]


@pytest.fixture
def few_noises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "PROMISED", PROMISED[:2])
    monkeypatch.setattr(simulation, "NOT_PROMISED", NOT_PROMISED)
    monkeypatch.setattr(simulation, "simulate_until_decided", until_decided)
    monkeypatch.setattr(simulation, "UNPAIRED_NOISES", ("device_bound",))
    monkeypatch.setattr(simulation, "UNPAIRED_BLOCKS", (5,))
    monkeypatch.setattr(simulation, "EMPTY_SCATTER", EMPTY_SCATTER[:1])
    monkeypatch.setattr(simulation, "EMPTY_BLOCKS", EMPTY_BLOCKS[:2])


@pytest.fixture
def few_night_noises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detection_figures, "HELD_TO_TARGETS", HELD_TO_TARGETS[:2])
    monkeypatch.setattr(detection_figures, "OTHERS", OTHERS[-1:])
    monkeypatch.setattr(realities, "REALITIES", REALITIES[:1])


@pytest.mark.usefixtures("few_noises")
def test_statistics_are_told_for_every_noise_and_repeat_with_the_seed(
    runner: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = runner.invoke(app, SMALL)
    assert told.exit_code == 0, told.output
    for name, tables in {"device_bound": 4, "launch_bound": 2, "slow_processes": 2}.items():
        assert told.output.count(f"\n{name} ") == tables
    words = "Every target is met in these 4 sweeps."
    assert told.output.splitlines()[-1].startswith(words)
    with monkeypatch.context() as patch:  # each noise has dice of its own
        patch.setattr(simulation, "PROMISED", PROMISED[:1])
        patch.setattr(simulation, "NOT_PROMISED", ())
        once, again, other = (
            runner.invoke(app, [*SMALL, "--seed", seed]).output for seed in ("1", "1", "2")
        )
    assert once == again != other
    assert _of("device_bound", once) == _of("device_bound", told.output)


def _of(noise: str, told: str) -> list[str]:
    return [line for line in told.splitlines() if line.startswith(f"{noise} ")]


@pytest.mark.usefixtures("few_noises")
def test_a_missed_target_is_marked_and_named_and_exits_1(
    runner: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(simulation.TARGETS, "coverage", (0.0, 0.5))
    told = runner.invoke(app, SMALL)
    assert told.exit_code == 1
    assert "!" in next(line for line in told.output.splitlines() if line.startswith("launch_bound"))
    assert "Missed: coverage under device_bound with 3 blocks;" in told.output.splitlines()[-1]


@pytest.mark.usefixtures("few_night_noises")
def test_nights_are_told_under_every_noise_and_repeat_with_the_seed(runner: CliRunner) -> None:
    told = runner.invoke(app, FEW_NIGHTS)
    assert told.exit_code == 0, told.output
    for name in ("2%_common", "2%", "drift"):
        assert told.output.count(f"\n{name} ") == 2, "software and hardware"
    assert "\n2%_common, z 4.5 " in told.output
    assert "\nindependent_0.5% " in told.output
    assert told.output.count("\n1 in 6 becomes 5 in 6 ") == 4
    assert "\nOther kinds of change: every target is met.\n" in told.output
    assert "\ndrift, 7% over the month " in told.output
    assert told.output.splitlines()[-1].endswith("in all 2 divisions of the noise.")
    assert runner.invoke(app, FEW_NIGHTS).output == told.output
    assert runner.invoke(app, [*FEW_NIGHTS, "--seed", "2"]).output != told.output


@pytest.mark.usefixtures("few_night_noises")
def test_a_missed_target_of_nights_is_marked_and_named_and_exits_1(
    runner: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detection_figures, "MOST_FALSE", -1.0)
    told = runner.invoke(app, FEW_NIGHTS)
    assert told.exit_code == 1
    assert "0.0000 !" in next(line for line in told.output.splitlines() if line.startswith("2% "))
    words = "Missed: false alerts under 2%_common; false alerts under 2%."
    assert told.output.splitlines()[-1] == words


REPLAYED = ["validate", "replay", "--results", str(STORED), "--replays", "5"]


def test_replays_of_stored_blocks_are_told_and_repeat_with_the_seed(runner: CliRunner) -> None:
    told = runner.invoke(app, REPLAYED)
    assert told.exit_code == 0, told.output
    (row,) = (line for line in told.output.splitlines() if "benchmark: false → true" in line)
    (whole,) = (line for line in told.output.splitlines() if line.startswith("all "))
    assert row.split()[-9:] == whole.split()[-9:], "no other contrast has the blocks"
    assert told.output.splitlines()[-1].startswith("100.0% of the replays that were decided have")
    assert runner.invoke(app, REPLAYED).output == told.output


def test_replays_below_the_target_exit_1(
    runner: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "TARGET", 1.1)
    told = runner.invoke(app, REPLAYED)
    assert told.exit_code == 1
    assert told.output.splitlines()[-1].startswith("Missed: 100.0% of the replays")


def test_results_with_too_few_blocks_to_replay_are_told(runner: CliRunner) -> None:
    told = runner.invoke(app, [*REPLAYED, "--sweep-id", "no-such-*"])
    assert told.exit_code == 2
    words = " ".join(told.output.split())
    assert "found 0 sweeps, and 0 cells with a verdict by times" in words
    assert "needed are cells with more than 3 blocks" in words


@pytest.mark.parametrize("words", [["validate"], ["validate", "timers"]])
def test_timers_are_what_is_validated_where_nothing_is_said(
    runner: CliRunner, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    asked: list[list[str]] = []

    def compare_timers(problems: list[str]) -> list[object]:
        asked.append(problems)
        return []

    monkeypatch.setattr("cudnn_sweep.orchestrator.cli.failing.leave", lambda code: None)
    monkeypatch.setattr(
        "cudnn_sweep.workloads.measuring.timer_validation.compare_timers", compare_timers
    )
    assert "0 of 0 agree" in runner.invoke(app, [*words, "--problem", "a", "--problem", "b"]).output
    assert asked == [["a", "b"]]
