"""`sweep nightly`, a night at a time, on the fake machine: locks, budgets, resuming, pins, exit codes."""

import io
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console

from cudnn_sweep.analysis.nights.history import History, read_history
from cudnn_sweep.analysis.nights.reports.report import from_json
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.locks.sweep_lock import night_lock
from cudnn_sweep.orchestrator.nightly.request import pin_baseline, read_night
from tests.orchestrator.nightly.conftest import FILES, RunNight, options_of, outcome
from tests.orchestrator.typed import invoke, sweep


def history(day: int = 1) -> History:
    found = read_history(open_store("results"), "lab", f"night-2026-11-{day:02}-lab", [])
    assert found is not None
    return found


def test_a_second_night_is_refused_and_names_the_first(here: Path, play: RunNight) -> None:
    said = io.StringIO()
    with night_lock("results", "lab"):
        assert play(console=Console(file=said, width=200)) == ExitCode.UNFINISHED
    assert re.search(r"a night .* is in progress: process \d+ on ", said.getvalue())
    assert not list(here.glob("results/sweep=*"))


def test_night_without_a_launch_file_shows_one_of_nights(here: Path, play: RunNight) -> None:
    (here / "cluster.yaml").unlink()
    with pytest.raises(ClusterError, match=r"there is no such file(.|\n)*nightly:") as caught:
        play()
    (here / "cluster.yaml").write_text(str(caught.value).partition(":\n\n")[2])
    assert read_night(options_of(1), {}).keys.suite == "nightly"


def test_a_last_good_that_is_not_there_is_told_at_once(here: Path, play: RunNight) -> None:
    file = here / "cluster.yaml"
    keys = "{suite: suite.yaml, last_good: /opt/none/bin/python}"
    file.write_text(FILES["cluster.yaml"].replace("{suite: suite.yaml}", keys))
    with pytest.raises(
        SpecError, match="last_good: found no program /opt/none/bin/python; allowed"
    ):
        play(is_fake=False)
    with pytest.raises(SpecError, match="last_good: found no program"):
        play(is_fake=False, dry_run=True)
    assert play(measure=False, is_fake=False) == 3, "compares anywhere"


@pytest.mark.parametrize("in_the_way", ["results", "results/.nightly-lab.lock/folder"])
def test_results_that_cannot_be_written_cannot_tell(
    here: Path, play: RunNight, in_the_way: str
) -> None:
    (here / in_the_way).parent.mkdir(parents=True, exist_ok=True)
    (here / in_the_way).touch()
    said = io.StringIO()
    assert play(console=Console(file=said, width=200)) == 3
    assert "could not tell: no lock can be made in results: " in said.getvalue()


@pytest.mark.slow
@pytest.mark.usefixtures("first_night")
def test_a_night_that_is_cut_goes_on_and_nothing_of_it_is_missing(
    here: Path, play: RunNight
) -> None:
    whole = outcome(here, 1)
    assert whole.recorded_trials == whole.planned_trials
    play(2, minutes=0.5)
    cut = outcome(here, 2)
    assert 0 < cut.recorded_trials < cut.planned_trials
    seen = {series.key.cell_id: series for series in history(2).series if is_presence(series)}
    assert {series.points[-1].value for series in seen.values()} == {"present", None}
    play(2, minutes=0.5)
    assert cut.recorded_trials < outcome(here, 2).recorded_trials


def is_presence(series: Any) -> bool:
    return bool(series.key.metric == "missing")


@pytest.mark.usefixtures("first_night")
def test_a_finished_night_is_only_compared_again(here: Path, play: RunNight) -> None:
    before = sorted(path.name for path in here.glob("results/sweep=*/**/*.parquet"))
    assert play(1) == 0
    assert sorted(path.name for path in here.glob("results/sweep=*/**/*.parquet")) == before
    assert "1 of the 7 nights" in outcome(here).reasons[0]


@pytest.mark.slow
@pytest.mark.usefixtures("first_night")
def test_launch_files_that_share_results_have_nights_of_their_own(
    here: Path, play: RunNight
) -> None:
    (here / "other.yaml").write_text(FILES["cluster.yaml"].replace("lab", "other lab"))
    play(2, file=Path("other.yaml"))
    assert [each.sweep_id for each in history(1).nights] == ["night-2026-11-01-lab"]
    assert (here / "results" / "nightly" / "other-lab" / "night-2026-11-02-other-lab.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"\xff\xfe", b"[" * 100_000])
@pytest.mark.usefixtures("first_night")
def test_a_damaged_diary_ends_no_night_and_is_named(
    here: Path, play: RunNight, content: bytes
) -> None:
    diary = here / "results" / "nightly" / "lab"
    (diary / "night-2026-11-01-lab.json").write_bytes(content)
    (diary / "told.json").write_bytes(content)
    said = io.StringIO()
    assert play(2, console=Console(file=said, width=400)) == 0, "too few nights"
    for name in ("night-2026-11-01-lab.json", "told.json"):
        assert re.search(f"warning: .*{name} cannot be read", said.getvalue()), name
    assert outcome(here, 2).recorded_trials > 0


def test_what_was_not_foreseen_is_no_regression(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> int:
        raise ZeroDivisionError("of a library's")

    monkeypatch.setattr("cudnn_sweep.orchestrator.nightly.night.run_night", fails)
    monkeypatch.setattr("cudnn_sweep.orchestrator.cli.failing.leave", _raise_exit)
    done = invoke(["nightly"])
    assert done.exit_code == ExitCode.UNFINISHED
    assert "ZeroDivisionError: of a library's" in done.stderr


def _raise_exit(code: int) -> None:
    raise typer.Exit(code)


@pytest.mark.long
@pytest.mark.usefixtures("first_night")
def test_a_pinned_night_begins_what_is_compared_with(here: Path, play: RunNight) -> None:
    options = options_of(3)
    for day in (2, 3):
        play(day)
    with pytest.raises(SpecError, match="no night-2026-12-01-lab; the last nights: .*11-03-lab"):
        pin_baseline(options, date(2026, 12, 1))
    pin_baseline(options, date(2026, 11, 2))
    play(3)
    assert outcome(here, 3).nights == 1
    assert play(1, measure=False) == 3
    assert outcome(here, 1).reasons == (
        "2026-11-01 is before the pinned night 2026-11-02; use --unpin, or --pin an earlier night",
    )
    pin_baseline(options, None)
    play(3)
    assert outcome(here, 3).nights == 2


@pytest.mark.slow
def test_without_cuda_it_cannot_tell_and_says_so(
    here: Path, play: RunNight, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert play(1, is_fake=False, suite="nightly") == ExitCode.NEEDS_GPU
    night = outcome(here)
    (reason,) = night.reasons
    assert reason.startswith("CUDA: no CUDA")
    assert (night.state, night.exit_code) == ("could_not_tell", ExitCode.NEEDS_GPU)
    assert not list(here.glob("results/sweep=*"))


@pytest.mark.long
@pytest.mark.measuring
def test_a_night_on_this_machine_through_ray_ends_as_a_fake_one_does(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("metadata: {sweep: {nightly: {suite: suite.yaml}}}")
    measure = "{warmup_s: 0, steady_budget_s: 0.02, calibrate: false, timeout_s: 100}"
    suite = f"replicates: 2\nmeasure: {measure}\ncells: [{{workload: noop}}]\n"
    (tmp_path / "suite.yaml").write_text(suite)
    told = sweep("nightly", "--format", "json", "--reports", "reports", here=tmp_path)
    assert told.returncode == 0, told.stderr  # another run of these tests here was waited for
    night = from_json(told.stdout)
    assert night.recorded_trials == night.planned_trials == 5, night.reasons
    assert "1 of the 7 nights" in night.reasons[0]
    assert night == from_json((tmp_path / "reports" / "latest" / "night.json").read_text())
