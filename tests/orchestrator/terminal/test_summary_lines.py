"""Which lines a launch's end prints, of sweeps that are made up: tables, failures, and what to type next."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cudnn_sweep.orchestrator.planning.decided import HOPELESS, OPEN
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.recording.recorder import Failure, Progress
from cudnn_sweep.orchestrator.terminal import summary as summaries
from cudnn_sweep.orchestrator.terminal.say import plain_table
from cudnn_sweep.orchestrator.terminal.summary import (
    CAUSES_SHOWN,
    LAUNCH_BOUND_NOTE,
    WIDE,
    _failure_lines,
    _next_lines,
    print_summary,
    race_lines,
    shard_lines,
    verdict_columns,
)
from cudnn_sweep.orchestrator.terminal.write_whole import is_stream, write_whole

OPTIONS = LaunchOptions(program="sweep", results_asked="results")


def row(**changes: Any) -> Any:
    usual = {
        "cell_id": "a",
        "identity": "a",
        "contrast": "benchmark: false → true",
        "gpu": "NVIDIA H200",
        "baseline_ms": 2.0,
        "candidate_ms": 1.0,
        "ratio": 0.5,
        "ratio_low": 0.4,
        "ratio_high": 0.6,
        "wall_in_words": "helps",
        "device_ratio": None,
        "device_verdict": None,
        "launch_bound": False,
    }
    return SimpleNamespace(**usual | changes)


def made_up(verdicts: Sequence[Any] = (), **changes: Any) -> Any:
    session = SimpleNamespace(
        sweep_id="s",
        plan=SimpleNamespace(is_race=changes.pop("is_race", False)),
        of_cells=changes.pop("of_cells", 1),
    )
    usual = {
        "session": session,
        "verdicts": verdicts,
        "break_evens": [],
        "races": [],
        "names": {"a": "conv", "b": "pool"},
        "statuses": Counter(ok=2),
        "is_complete": True,
        "progress": Progress(),
        "not_run": 0,
        "undecided": lambda: (),
        "counted": lambda: (),
        "warned": lambda: (),
    }
    return SimpleNamespace(**usual | changes)


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summaries, "verdict_label", lambda each, names: names[each.cell_id])
    monkeypatch.setattr(summaries, "shortened", lambda text: text)
    monkeypatch.setattr(summaries, "further_lines", lambda *_: ())


@pytest.mark.parametrize(
    ("verdicts", "changes", "names"),
    [
        ([row()], {}, ["baseline_ms", "candidate_ms", "ratio", "verdict"]),
        (
            [row(), row(contrast="other")],
            {},
            ["contrast", "baseline_ms", "candidate_ms", "ratio", "verdict"],
        ),
        (
            [row(), row(device_ratio=0.5, device_verdict="helps")],
            {},
            ["baseline_ms", "candidate_ms", "ratio", "verdict", "device_time"],
        ),
        (
            [row()],
            {
                "break_evens": [
                    SimpleNamespace(compute_cache="warm", outcome="pays", identity="a"),
                    SimpleNamespace(compute_cache="empty", outcome="no_effect", identity="a"),
                ]
            },
            ["baseline_ms", "candidate_ms", "ratio", "verdict", "break-even_warm_cache"],
        ),
    ],
)
def test_columns_that_say_nothing_are_left_out(
    monkeypatch: pytest.MonkeyPatch, verdicts: list[Any], changes: dict[str, Any], names: list[str]
) -> None:
    monkeypatch.setattr(summaries, "payback", lambda each: each.outcome)
    columns = list(verdict_columns(made_up(verdicts, **changes), has_room=True))
    assert [column.name for column in columns][1:] == names
    assert [column.name for column in columns if column.is_number] == [
        "baseline_ms",
        "candidate_ms",
    ]
    if changes:
        assert columns[-1].texts == ["pays"]


@pytest.mark.parametrize(
    ("is_terminal", "width", "has_room"),
    [(False, 10, True), (True, WIDE, True), (True, WIDE - 1, False)],
)
def test_a_table_has_intervals_if_it_has_room(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, width: int, has_room: bool
) -> None:
    asked: list[bool] = []

    def columns(summary: Any, *, has_room: bool) -> tuple[()]:
        asked.append(has_room)
        return ()

    said: list[str] = []
    monkeypatch.setattr(summaries, "verdict_columns", columns)
    monkeypatch.setattr(summaries, "draw_marked", lambda *_: "table")
    monkeypatch.setattr(summaries, "say", lambda _, text, *__: said.append(text))
    console: Any = SimpleNamespace(width=width, is_terminal=is_terminal)
    bound = [row(launch_bound=True), row()]
    summary = made_up(bound)
    print_summary(console, summary, "results", OPTIONS)
    assert asked == [has_room]
    assert LAUNCH_BOUND_NOTE in said
    assert not any("--results" in line for line in said)
    print_summary(console, made_up([row()]), "elsewhere", OPTIONS)
    assert said.count(LAUNCH_BOUND_NOTE) == 1
    assert any("--results elsewhere" in line for line in said)


def config(**changes: Any) -> Any:
    usual = {"cell_id": "a", "best": "on", "best_ms": 1.0, "other": "off", "other_ms": 2.0}
    more = {"ratio": 2.0, "ratio_low": 1.9, "ratio_high": 2.1, "blocks": 3, "state": "raced_out"}
    return SimpleNamespace(**usual | more | changes)


@pytest.mark.parametrize(
    ("states", "line"),
    [
        (["raced_out", "raced_out"], "\nFastest in conv: on, 1.00 ms."),
        (["raced_out", OPEN], "\nFastest so far in conv: on, 1.00 ms."),
        ([HOPELESS, "raced_out"], "\nFastest so far in conv: on, 1.00 ms."),
    ],
)
def test_a_race_names_the_fastest_config_of_a_cell(
    monkeypatch: pytest.MonkeyPatch, states: list[str], line: str
) -> None:
    drawn: list[Any] = []

    def draw(columns: Any, width: int | None) -> str:
        drawn.append(columns)
        return ""

    monkeypatch.setattr(summaries, "draw_marked", draw)
    rows = [config(state=state) for state in states]
    assert next(race_lines(rows, {"a": "conv"}, None)) == line
    (none, _) = race_lines([config(best_ms=None)], {"a": "conv"}, None)
    assert none == "\nNo config ran in conv."
    (columns,) = drawn
    texts = {column.name: column.texts for column in columns}
    assert (texts["ratio"], texts["state"]) == (["2.000 (1.900–2.100)"], ["raced out"])
    assert [column.name for column in columns if column.is_number] == ["ms", "blocks"]


@pytest.mark.parametrize(
    ("progress", "line"),
    [
        (Progress(lost=1), "The worker died in 1 attempts. 0 records came twice."),
        (Progress(repeated=2), "The worker died in 0 attempts. 2 records came twice."),
        (Progress(), None),
    ],
)
def test_lost_attempts_are_counted(progress: Progress, line: str | None) -> None:
    lines = list(_failure_lines(made_up(progress=progress), "", OPTIONS))
    assert lines == ([] if line is None else [line])


@pytest.mark.parametrize("more", [0, 1, 2])
def test_causes_past_the_first_ones_are_counted_with_their_command(
    monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    failures = [
        Failure(trial_id="t", status="error", message=f"E{n} at net.py:{n}")
        for n in range(CAUSES_SHOWN + more)
    ]
    monkeypatch.setattr(summaries, "_cause_lines", lambda *_: ())
    lines = list(_failure_lines(made_up(progress=Progress(failures=failures)), " --x", OPTIONS))
    counted = f"and {more} cause{'s' * (more > 1)} more: sweep query failures --x --sweep-id s"
    assert lines[CAUSES_SHOWN:] == [counted] * bool(more)


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({"is_complete": False}, "# runs the missing trials"),
        ({"is_complete": False, "verdicts": [row()]}, "# third blocks"),
        ({"is_complete": False, "verdicts": [row()], "of_cells": 2}, "# runs the missing trials"),
        ({"statuses": Counter(ok=1, error=1)}, "query failures"),
        ({"statuses": Counter(ok=1, raced_out=1)}, "report --format markdown"),
        ({"is_race": True}, "query race"),
    ],
)
def test_what_to_type_next_follows_from_what_is_there(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], first: str
) -> None:
    monkeypatch.setattr(summaries, "third_blocks", lambda _: "third blocks")
    lines = list(_next_lines(made_up(**changes), "", OPTIONS))
    assert first in lines[0]
    assert sum("query race" in line for line in lines) == bool(changes.get("is_race"))
    assert "median(steady_wall_ms)" in lines[-1]


def test_without_a_result_only_failures_are_to_be_asked_for() -> None:
    lines = list(_next_lines(made_up(statuses=Counter(error=1)), "", OPTIONS))
    assert lines == ["sweep query failures --sweep-id s"]


def test_a_shard_counts_its_own_trials_and_those_of_others() -> None:
    own = [SimpleNamespace(trial_id=name) for name in "abc"]
    session: Any = SimpleNamespace(shard="1/2", own=SimpleNamespace(trials=own), plan_trials=8)
    there: Any = [SimpleNamespace(trial_id=name) for name in "abxyz"]
    (line,) = shard_lines(session, there)
    assert line.startswith(
        "Shard 1/2: 2 of its 3 trials are recorded. 5 trials belong to other shards. "
    )
    assert line.endswith(" 3 of these are recorded, too.")
    session.shard = None
    assert list(shard_lines(session, there)) == []


def test_numbers_stand_to_the_right() -> None:
    table = plain_table(["cell", "trials"], [["conv", "2"]], right=("trials",))
    assert [column.justify for column in table.columns] == ["left", "right"]


def test_a_text_goes_whole_into_a_file_and_as_it_is_into_a_pipe(tmp_path: Path) -> None:
    file, folder = tmp_path / "new.md", tmp_path / "folder"
    folder.mkdir()
    assert not any(map(is_stream, (file, folder)))
    write_whole(file, "text")
    assert file.read_text() == "text"
    assert not is_stream(file)
    inode = file.stat().st_ino
    write_whole(file, "other")
    assert (file.read_text(), file.stat().st_ino != inode) == ("other", True), "atomically"
    for wrong in (folder, tmp_path / "none/new.md"):
        with pytest.raises(Exception, match="cannot write"):
            write_whole(wrong, "text")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, "text")
    assert (os.read(reader, 9), is_stream(pipe)) == (b"text", True)
    os.close(reader)
