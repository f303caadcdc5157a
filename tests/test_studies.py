"""The studies at their smallest. What verdicts and nights promise is tested with them: test_promises.py, test_realities.py."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import typer

from cudnn_sweep.analysis.answering.contrast import Contrast
from cudnn_sweep.analysis.asking.queries import load_query
from cudnn_sweep.analysis.errors import QueryError
from cudnn_sweep.analysis.storing.store import open_store
from tests.conftest import ROOT
from tests.studies import advice, in_turns, june, verdicts
from tests.studies.nights import nights
from tests.studies.parts import detection_figures, night_choices, realities, replaying, simulation
from tests.studies.parts.advice_cases import cases
from tests.studies.parts.advice_table import is_right
from tests.studies.parts.generated import write_generated
from tests.studies.parts.made_rows import made_rows, open_rows
from tests.studies.parts.noise import PROMISED, times_and_choices
from tests.studies.parts.question_timing import ask_alone
from tests.studies.parts.simulated_nights import HELD_TO_TARGETS, OTHERS
from tests.studies.replay import replay
from tests.studies.scale import measure_rivals, stored_bytes

STORED = [str(ROOT / "docs/results/h200-2026-11-21/quick")]
Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("name", [file.stem for file in (ROOT / "tests/studies").glob("*.py")])
def test_study_can_be_imported_and_says_what_it_is(name: str) -> None:
    assert import_module(f"tests.studies.{name}").__doc__


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nights", "-m tests.studies.nights --few 2"),
        ("nigths", "found 'nigths'; NAME is one of: advice "),
    ],
)
def test_make_study_runs_it_or_tells_the_names(name: str, said: str) -> None:
    command = ["make", "--dry-run", "study", name, "ARGS=--few 2"]
    made = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert said in made.stdout + made.stderr


@pytest.mark.slow
def test_june_2026_is_told_on_its_first_nights_and_nothing_else(capsys: Capture) -> None:
    with pytest.raises(typer.Exit) as ended:
        june.june(nights=0, seeds=1)
    said = capsys.readouterr().out
    assert ended.value.exit_code == 0, said
    assert "on gpu07 (NVIDIA H200), 2026-06-20: wall and device time" in said


def test_nights_are_told_and_a_missed_target_is_marked_and_named(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detection_figures, "HELD_TO_TARGETS", HELD_TO_TARGETS[:2])
    monkeypatch.setattr(detection_figures, "OTHERS", OTHERS[-1:])
    monkeypatch.setattr(detection_figures, "CURVES_OF", ("2%",))
    monkeypatch.setattr(realities, "REALITIES", realities.REALITIES[:1])
    monkeypatch.setattr(night_choices, "CHANGES", night_choices.CHANGES[3:4])
    nights(series=20, nights=30, histories=tmp_path / "nights.npz")
    with np.load(tmp_path / "nights.npz") as saved:
        assert saved["drift/still"].shape == (20, 30) and "reality/independent_0.5%" in saved
    told = capsys.readouterr().out
    for name in ("2%_common", "2%", "drift"):
        assert told.count(f"\n{name} ") == 2, "software and hardware"
    assert told.count("\n1 in 6 becomes 5 in 6 ") == 1
    assert told.splitlines()[-1].endswith("in all 2 divisions of the noise.")
    monkeypatch.setattr(detection_figures, "MOST_FALSE", -1.0)
    with pytest.raises(Exception, match="1"):
        nights(series=20, nights=30, seed=1)
    words = "Missed: false alerts under 2%_common; false alerts under 2%."
    assert capsys.readouterr().out.splitlines()[-1] == words


@pytest.mark.slow
def test_verdicts_are_told_and_a_missed_target_is_marked_and_named(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, kept in (
        ("PROMISED", 1),
        ("NOT_PROMISED", 1),
        ("EMPTY_SCATTER", 1),
        ("EMPTY_BLOCKS", 2),
    ):
        monkeypatch.setattr(simulation, name, getattr(simulation, name)[:kept])
    monkeypatch.setattr(simulation, "UNPAIRED_NOISES", ("device_bound",))
    monkeypatch.setattr(simulation, "UNPAIRED_BLOCKS", (5,))
    looked = [simulation.try_until_decided(PROMISED[0], 60, (3, 5, 8, 12, 20), seed=1)]
    monkeypatch.setattr(verdicts, "simulate_until_decided", lambda *asked: looked)
    verdicts.verdicts(cells=60, blocks=[3])
    told = capsys.readouterr().out
    assert told.count("\ndevice_bound ") == 4
    assert told.splitlines()[-1].startswith("Every target is met in these 3 sweeps.")
    monkeypatch.setitem(simulation.TARGETS, "coverage", (0.0, 0.5))
    with pytest.raises(Exception, match="1"):
        verdicts.verdicts(cells=60, blocks=[3])
    assert "Missed: coverage under device_bound with 3 blocks" in capsys.readouterr().out


def test_replays_are_told(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    replay(results=STORED, replays=5)
    told = capsys.readouterr().out.splitlines()
    (row,) = (line for line in told if "benchmark: false → true" in line)
    (whole,) = (line for line in told if line.startswith("all "))
    assert row.split()[-9:] == whole.split()[-9:], "no other contrast has the blocks"
    assert told[-1].startswith("100.0% of the replays that were decided have")
    monkeypatch.setattr(replaying, "TARGET", 1.1)
    with pytest.raises(Exception, match="1"):
        replay(results=STORED, replays=5)
    with pytest.raises(QueryError, match="found 0 sweeps, and 0 cells with a verdict by times"):
        replay(results=STORED, sweep_id="no-such-*")


def test_looks_at_a_replayed_order_are_those_of_a_launch() -> None:
    """A launch asks `decided` after each look; its rows are those of the blocks in this order."""
    cells, blocks, looks = 18, 8, (3, 5, 8)
    dice = np.random.default_rng(0)
    noise = next(each for each in PROMISED if each.name == "other_choices")
    effects = np.resize(np.log([1.0, 1.0, 1.05, 0.92, 1.5]), cells)
    logs, other = times_and_choices(noise, effects, blocks, dice)
    rows = made_rows(np.exp(logs), np.full(logs.shape, 30.0), other)
    rows = rows.append_column("looks", pa.repeat(pa.scalar(looks, pa.list_(pa.int64())), len(rows)))
    cell, block = np.divmod(rows["block"].to_numpy(), blocks)
    order = [dice.permutation(blocks) for _ in range(cells)]
    contrast = Contrast(field="benchmark", baseline="false", candidate="true")
    with open_rows(rows) as database:
        stored = replaying.stored_cells(database, contrast)
        stored.sort(key=lambda each: int(each.cell_id))
        states, taken = replaying.in_orders(database, stored, [order], looks)
    question = load_query("decided")
    when = np.array([np.argsort(order[c])[b] for c, b in zip(cell, block, strict=True)])
    launch, is_open = np.zeros(cells, int), np.ones(cells, bool)
    for look in looks:
        launch[is_open] = look
        with open_rows(rows.filter(when < launch[cell])) as database:
            found = database.query(question.sql, question.values({})).to_pylist()
        state = {int(row["cell_id"]): row["state"] for row in found}
        is_open = np.array([state[each] == "open" for each in range(cells)])
    assert taken[0].tolist() == launch.tolist()
    assert states[0].tolist() == [state[each] for each in range(cells)]
    assert len(set(states.ravel())) >= 3


def test_scale_is_over_a_made_up_store_in_which_pandas_finds_the_same_ratios(
    tmp_path: Path,
) -> None:
    write_generated(open_store(str(tmp_path)), trials=2000, samples=30)
    rivals = measure_rivals(str(tmp_path), repeats=1, begins=lambda name: None)
    assert rivals[0].asked.rows == rivals[1].asked.rows > 40
    assert max(rival.difference for rival in rivals) < 1e-9
    asked = ask_alone(str(tmp_path), "sweeps")
    assert (asked.name, asked.rows, asked.ratios) == ("sweeps", 4, None)
    assert 0 < stored_bytes(tmp_path) < 5000 * 2000


@pytest.mark.slow
def test_what_an_audit_costs_is_told() -> None:
    small = "audit_cost.ROUNDS, audit_cost.CALLS, audit_cost.BAR_US = 1, 40, 1e9"
    code = f"from tests.studies import audit_cost; {small}; raise SystemExit(audit_cost.main())"
    told = subprocess.run(
        [sys.executable, "-c", code], check=False, cwd=ROOT, capture_output=True, text=True
    )
    assert told.returncode == 0, told.stderr
    assert "\nthe audit, at a shape's first call: " in told.stdout


@pytest.mark.parametrize(
    ("side", "break_even", "chosen"),
    [
        ("below", 2000.0, (1092, "below")),
        ("below", 500.0, (1092, "above")),  # a run below it would be shorter than 10 s
        ("above", 800.0, (1360, "above")),
        ("above", 1500.0, (1092, "near")),
        ("above", None, (1092, "none")),
    ],
)
def test_steps_of_a_run_of_ten_to_twenty_seconds_are_on_its_side_of_the_break_even_point(
    side: str, break_even: float | None, chosen: tuple[int, str]
) -> None:
    told = {"baseline_ms": 10.0, "candidate_ms": 8.0, "baseline_s": 15.5, "job_steps": 1500}
    case = next(case for case in cases(tiny=False) if case.side == side)
    assert advice.steps_of(case, told | {"break_even_steps": break_even}, tiny=False) == chosen


def test_an_advice_is_right_by_its_sign_where_that_matters() -> None:
    right = [("on", 0.9), ("off", 1.1), ("no difference", 1.005), ("no difference", 1.02)]
    assert all(is_right(*each) for each in right)
    wrong = [("no difference", 0.9), ("on", 1.1), ("on", 0.995)]
    assert not any(is_right(*each) for each in wrong)


def test_parts_in_turns_are_there_and_end_when_they_are_decided() -> None:
    for name in ("aa", "planted", "order", "cold", "capped", "speeds"):
        assert in_turns.part_named(name, ["1"]).suite.cells
    for limit, most in in_turns.MOST_BLOCKS.items():
        assert in_turns.needs(limit, None), "not measured yet"
        assert in_turns.needs(limit, (most - 1, "inconclusive"))
        assert not in_turns.needs(limit, (most, "inconclusive"))
    assert in_turns.needs(10_008, (4, "hurts")), "five blocks are five"
    assert not in_turns.needs(10_005, (3, "hurts"))
