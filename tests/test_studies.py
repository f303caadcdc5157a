"""The studies at their smallest. What verdicts and nights promise is tested with them: test_promises.py, test_realities.py."""

from importlib import import_module
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import typer

from cudnn_sweep.analysis.engine.queries import load_query
from cudnn_sweep.analysis.errors import QueryError
from cudnn_sweep.analysis.results.contrast import Contrast
from cudnn_sweep.analysis.store.store import open_store
from tests.conftest import ROOT
from tests.studies import june
from tests.studies import race as races
from tests.studies.nights import nights
from tests.studies.parts import detection_figures, night_choices, night_words, realities, replaying
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


@pytest.mark.long
@pytest.mark.timeout(900)  # 135 s alone
def test_june_2026_is_told_on_its_first_nights_and_nothing_else(capsys: Capture) -> None:
    with pytest.raises(typer.Exit) as ended:
        june.june(nights=0, seeds=1)
    said = capsys.readouterr().out
    assert ended.value.exit_code == 0, said
    assert "on gpu07 (NVIDIA H200), 2026-06-20: wall and device time" in said


@pytest.mark.long
def test_nights_are_told_and_a_missed_target_is_marked_and_named(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detection_figures, "HELD_TO_TARGETS", HELD_TO_TARGETS[:2])
    monkeypatch.setattr(detection_figures, "OTHERS", OTHERS[-1:])
    monkeypatch.setattr(detection_figures, "CURVES_OF", ("2%",))
    monkeypatch.setattr(realities, "REALITIES", realities.REALITIES[:1])
    monkeypatch.setattr(night_choices, "CHANGES", night_choices.CHANGES[3:4])
    monkeypatch.setattr(night_words, "WORDS", night_words.WORDS[:1])
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


@pytest.mark.long
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


def test_a_step_that_waits_for_the_cpu_is_made_faster_by_a_graph() -> None:
    kinds = {kind.name: kind for kind in races.KINDS}
    of_graphs = [("execution", "cuda_graph") in changes for changes in races.CONFIGS]
    made = races.Races([kinds["CPU-bound"], kinds["CPU-bound, all equal"]], seed=1)
    assert of_graphs[made.job_s[0].argmin()]
    assert np.ptp(made.job_s[1]) == 0


@pytest.mark.long
@pytest.mark.timeout(900)  # 100 s alone
def test_races_name_what_is_within_1_percent_of_the_best(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clear = next(kind for kind in races.KINDS if kind.name == "CPU-bound")
    monkeypatch.setattr(races, "KINDS", [clear])
    races.race(races=2)
    (row,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith(clear.name))
    assert row.split()[1] == "100.0%"
    monkeypatch.setattr(races, "GAIN", -1.0)
    monkeypatch.setattr(races.Races, "run", lambda *_: None)
    found = races.Found(
        loss=0.0,
        sets=True,
        sets_by_means=True,
        is_faster=True,
        is_held=True,
        stages=1,
        plain=4,
        compiled=0,
    )
    monkeypatch.setattr(races.Races, "found", lambda *_: found)
    with pytest.raises(typer.Exit) as ended:
        races.race(races=100)
    assert ended.value.exit_code == 1


@pytest.mark.long
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


@pytest.mark.long
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
