"""`sweep freeze` on a made-up GPU and made-up processes: the file, the answer, and what asks it again."""

import errno
import io
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cudnn_sweep.analysis.answers.answer import Answer
from cudnn_sweep.analysis.results.advice import UNDECIDED
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.orchestrator.errors import ModelError, SpecError
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.freezing.freeze import freeze
from cudnn_sweep.orchestrator.planning.request import Planned
from cudnn_sweep.orchestrator.steps.advice_text import answer_of
from cudnn_sweep.orchestrator.steps.advising import advise, answered_of
from cudnn_sweep.orchestrator.steps.one_step import suite_to_compare
from cudnn_sweep.orchestrator.steps.sequence import answer_step, deliver
from cudnn_sweep.orchestrator.steps.step_options import AdviseOptions, FreezeOptions
from cudnn_sweep.workloads.cells.errata import read_file, text_of
from tests.analysis.conftest import changed
from tests.fake_machine import (
    FakeEffect,
    FakeMachine,
    FakeNoise,
    FakeScript,
)
from tests.orchestrator.freezing.fake_probe import VERSION, FakeProbe
from tests.studies.gates import Pairs, play

pytestmark = pytest.mark.usefixtures("here")

FASTER = [{"ConvFwd_eng1": 2.0, "ConvFwd_eng2": 1.0}, {"ConvFwd_eng3": 1.0}]
RULES = f"ConvFwd:1@{VERSION}"
DONE, CHANGED = 0, 1


def _machine(frozen_time: float, process: float = 0.002, seed: int = 0) -> FakeMachine:
    """A step takes this share of its time with errata; on is a little slower, and its first calls take long."""
    effects = [
        FakeEffect(where={"errata": RULES.lower()}, time=frozen_time),
        FakeEffect(where={"benchmark": "true"}, time=1.2 * frozen_time, cold=20.0),
    ]
    noise = FakeNoise(night=0.0, process=process)
    script = FakeScript(noise=noise, effects=effects, trial_s=2.0, seed=seed)
    return FakeMachine(script=script, night=date(2026, 1, 1))


def _options(**changes: Any) -> FreezeOptions:
    usual: dict[str, Any] = {"workload": "batch_norm", "minutes": 1.0, "steps": 10**6}
    return FreezeOptions(**usual | changes)


def _said(
    options: FreezeOptions,
    operations: list[dict[str, float]],
    frozen_time: float = 0.5,
    step: Callable[..., Answer] = freeze,
    **machine: Any,
) -> tuple[int, str, FakeProbe]:
    probe = FakeProbe(operations=operations)

    @contextmanager
    def opened(planned: Planned, console: Console) -> Iterator[FakeProbe]:
        yield probe

    out = Console(file=io.StringIO(), width=80, markup=False)
    quiet = Console(file=io.StringIO(), width=80)
    code = answer_step(step, options, quiet, _machine(frozen_time, **machine), out, opened)
    assert isinstance(out.file, io.StringIO)
    return code, out.file.getvalue(), probe


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, Answer]:
    """A folder in which the choice was kept, what was said, and the answer that says so."""
    folder = tmp_path_factory.mktemp("kept")
    answers: list[Answer] = []

    def step(*asked: Any) -> Answer:
        answers.append(freeze(*asked))
        return answers[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        code, text, _ = _said(_options(), FASTER, step=step)
    assert code == DONE
    return folder, text, answers[0]


@pytest.fixture
def kept(once: tuple[Path, str, Answer], tmp_path: Path) -> str:
    """The same here; what was said."""
    folder, text, _ = once
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return text.replace(str(folder), str(tmp_path))


@pytest.mark.slow
def test_the_file_has_the_rules_and_what_they_were_found_for(kept: str, tmp_path: Path) -> None:
    text = kept
    assert text.strip().startswith(
        "Leave benchmark off and use batch_norm.json, which keeps the plans that a search chose.\n\n"
        f"    export CUDNN_ERRATA_JSON_FILE={tmp_path}/batch_norm.json\n"
        "    torch.backends.cudnn.benchmark = False"
    ), text
    assert max(map(len, text.splitlines()[4:-2])) <= 80, text
    assert text_of(read_file(tmp_path / "batch_norm.json")) == RULES
    told = json.loads((tmp_path / "batch_norm.json").read_text())["frozen"]
    assert told["plans"] == ["ConvFwd_eng2", "ConvFwd_eng3"]
    assert told["frozen_ms"] == pytest.approx(0.5 * told["off_ms"], rel=0.05)


@pytest.mark.slow
@pytest.mark.usefixtures("kept")
def test_advice_compares_a_kept_choice_and_the_store_says_it_again() -> None:
    out = Console(file=io.StringIO(), width=80)
    asked = AdviseOptions(
        workload="batch_norm", steps=10**6, freeze="batch_norm.json", json=True, from_store=True
    )
    quiet = Console(file=io.StringIO())
    assert answer_step(advise, asked, quiet, _machine(0.5), out) == DONE
    assert isinstance(out.file, io.StringIO)
    told = json.loads(out.file.getvalue())
    assert told["setting"] == told["advice"] == "frozen"
    assert told["frozen"]["measured"]["errata"] == RULES
    assert told["frozen"]["measured"]["frozen_ratio"] == pytest.approx(0.5, rel=0.05)


@pytest.mark.long
@pytest.mark.usefixtures("kept")
def test_a_choice_that_is_not_decided_yet_says_what_is_known_so_far() -> None:
    store = open_store("results")
    (sweep_id,) = store.sweep_ids()
    found = answered_of(_options(freeze="batch_norm.json"), store, sweep_id)
    assert found.advice is not None
    assert found.kept is not None
    frozen = changed(found.kept.advice, advice=UNDECIDED, step_ratio=0.944, minutes_needed=0.67)
    undecided = replace(
        found,
        advice=changed(found.advice, advice=UNDECIDED),
        kept=replace(found.kept, advice=frozen),
    )
    assert answer_of(undecided).headline == (
        "Undecided. So far, a step with batch_norm.json takes 0.944 of the time of a step with benchmark off. "
        "A decision takes about 0.67 more minutes (--minutes)."
    )


@pytest.mark.slow
def test_what_the_three_compute_is_compared_with_float64_where_that_is_asked_for(kept: str) -> None:
    assert suite_to_compare(_options(), RULES, float64=True).measure.reference_replicates == 1
    assert re.search(r"error against float64 +0\.000300 +0\.000300 +0\.000300", kept), kept


@pytest.mark.long
def test_what_is_no_faster_leaves_no_file(tmp_path: Path) -> None:
    code, text, _ = _said(_options(), FASTER, frozen_time=1.0, process=0.0)
    assert code == DONE
    assert re.search(
        r"No gain is shown by \d+ blocks: a step takes 1.000 of the time with benchmark off", text
    )
    assert not (tmp_path / "batch_norm.json").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("kept")
def test_only_an_interval_below_off_is_a_gain() -> None:
    store = open_store("results")
    (sweep_id,) = store.sweep_ids()
    kept = answered_of(_options(freeze="batch_norm.json"), store, sweep_id).kept
    assert kept is not None
    assert kept.gains
    ratios = {"frozen_ratio": 0.97, "frozen_ratio_low": 0.93, "frozen_ratio_high": 1.012}
    unsure = replace(kept, measured=changed(kept.measured, blocks=2, **ratios))
    assert not unsure.gains, "by the point a step is 3% faster"
    assert (
        unsure.step
        == "by 2 blocks: a step takes 0.970 of the time with benchmark off (0.930 to 1.012)"
    )
    small = {"frozen_ratio": 0.997, "frozen_ratio_low": 0.995, "frozen_ratio_high": 0.999}
    assert replace(kept, measured=changed(kept.measured, **small)).gains
    slower = changed(kept.advice, advice="off", setting="off")
    assert not replace(kept, advice=slower).gains, "the job is decided against it"


def test_where_nothing_can_be_banned_nothing_is_compared(tmp_path: Path) -> None:
    code, text, _ = _said(_options(), [{"ConvFwd_eng1": 1.0}])
    assert (code, "Nothing to gain" in text) == (DONE, True)
    assert not open_store(str(tmp_path / "results")).sweep_ids()


@pytest.mark.long
@pytest.mark.usefixtures("kept")
def test_a_check_says_whether_the_same_plans_are_taken() -> None:
    check = _options(check="batch_norm.json")
    code, text, _ = _said(check, FASTER)
    assert code == DONE
    assert "The file is still valid here. Plans 2 of 2 operations" in " ".join(text.split())
    other = [{"ConvFwd_eng1": 2.0, "ConvFwd_eng4": 1.5, "ConvFwd_eng2": 1.0}, FASTER[1]]
    code, text, _ = _said(check, other)
    assert code == CHANGED
    assert "operation 1: ConvFwd_eng2 saved, ConvFwd_eng4 used" in " ".join(text.split())


@pytest.mark.slow
@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize(
    ("time", "expected"),
    [
        pytest.param(1.0, ExitCode.FINE, marks=pytest.mark.long),
        (1.05, ExitCode.WORSE),
    ],
)
def test_a_check_compares_in_turns_by_the_rule_of_a_gate(time: float, expected: ExitCode) -> None:
    """Whatever single processes take: the second plan of the first operation is slower by 10% in them."""
    alone = [{"ConvFwd_eng1": 1.0, "ConvFwd_eng2": 1.1}, FASTER[1]]
    check = _options(check="batch_norm.json", json=True)
    code, text, probe = _said(check, alone, frozen_time=time, process=0.0)
    told = json.loads(text)
    assert (code, told["holds"], told["same_plans"]) == (expected, code == DONE, 2)
    assert told["ratio_low"] <= told["ratio"] <= told["ratio_high"]
    assert told["baseline_ms"] * told["ratio"] == pytest.approx(told["candidate_ms"])
    assert told["blocks"] > 1
    assert not probe.timed


@pytest.mark.long
@pytest.mark.parametrize(("loss", "most"), [(0.0, 0.01), (0.05, 1.0)])
def test_the_rule_of_a_check_fails_no_equal_file_and_finds_a_loss(loss: float, most: float) -> None:
    """Of so many made-up checks, with the scatter of a loop on a full GPU."""
    kind = Pairs(name="full", scatter=0.0035, launch_bound=False)
    counts, _ = play(kind, loss, number=400, blocks=5, seed=0)
    fails = counts["slower"] / 400
    assert fails <= most
    assert fails >= 0.99 or not loss


def test_a_step_that_does_not_run_has_its_own_exit_code(tmp_path: Path) -> None:
    @contextmanager
    def opened(planned: Planned, console: Console) -> Iterator[FakeProbe]:
        raise ModelError("nets.py:Net: with benchmark on a process ended: no memory")
        yield

    quiet = Console(quiet=True)
    with pytest.raises(ModelError, match="a process ended: no memory") as raised:
        freeze(_options(), quiet, _machine(0.5), opened)
    assert raised.value.exit_code == ExitCode.DOES_NOT_RUN


def _unwritten(
    answer: Answer, monkeypatch: pytest.MonkeyPatch, link: Callable[[Path, Path], None]
) -> str:
    """What a freeze with this answer prints if its file cannot be written at its end."""
    monkeypatch.setattr("cudnn_sweep.orchestrator.terminal.write_whole.os.link", link)
    out = Console(file=io.StringIO(), width=80, markup=False)
    quiet = Console(file=io.StringIO(), width=80)
    assert deliver(answer, (), quiet, out, is_json=False)
    assert isinstance(quiet.file, io.StringIO)
    assert "sweep: cannot write batch_norm.json" in quiet.file.getvalue()
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


@pytest.mark.slow
def test_a_full_disk_leaves_no_torn_file_and_the_answer_is_printed(
    once: tuple[Path, str, Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(made: Path, file: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "rename", full)
    assert "Leave benchmark off and use" in _unwritten(once[2], monkeypatch, full)
    assert not list(tmp_path.glob("*.json"))
    assert not list(tmp_path.glob(".batch_norm.json.*"))


@pytest.mark.slow
@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_of_another_freeze_meanwhile_stays(
    once: tuple[Path, str, Answer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    has_links: bool,
) -> None:
    link = os.link

    def late(made: Path, file: Path) -> None:
        file.write_text("another's")
        if not has_links:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        link(made, file)

    assert "Leave benchmark off and use" in _unwritten(once[2], monkeypatch, late)
    assert (tmp_path / "batch_norm.json").read_text() == "another's"


@pytest.mark.slow
@pytest.mark.usefixtures("kept")
def test_a_damaged_file_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    file = tmp_path / "batch_norm.json"
    file.write_text(file.read_text().replace('"frozen_ms": ', '"frozen_ms": 1'))
    with pytest.raises(SpecError, match="wrong checksum.*sweep freeze"):
        _said(_options(check=str(file)), FASTER)
