"""`sweep bans` on a made-up GPU: which engines are banned, what each ban costs, and that it resumes."""

import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import date
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.orchestrator.cli import failing
from cudnn_sweep.orchestrator.errors import ModelError, SpecError
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.freezing import bans as banning
from cudnn_sweep.orchestrator.freezing.bans import answered, bans, bans_of
from cudnn_sweep.orchestrator.planning.request import Planned
from cudnn_sweep.orchestrator.running.run_sweep import Ran
from cudnn_sweep.orchestrator.steps.step_options import BansOptions
from cudnn_sweep.workloads.cells.errata import Rule
from cudnn_sweep.workloads.measuring.log_pass import read_log
from tests.fake_machine import (
    FakeEffect,
    FakeMachine,
    FakeNoise,
    FakeScript,
)
from tests.orchestrator.freezing.fake_probe import FakeProbe
from tests.orchestrator.typed import invoke

pytestmark = pytest.mark.usefixtures("here")

LOGS = Path(__file__).parents[2] / "workloads/data/cudnn_frontend_benchmark_"
OPERATIONS = [{"ConvFwd_eng5_k2=1": 1.0}, {"ConvBwdData_eng67": 1.0}, {"ConvFwd_eng5_k2=3": 1.0}]
EFFECTS = [
    FakeEffect(where={"errata": "convfwd:5"}, time=3.0, engine="fallback", error=2.0),
    FakeEffect(where={"errata": "convbwddata:67"}, status="error"),
]


def _ran(
    operations: list[dict[str, float]] = OPERATIONS, trial_s: float = 2.0, **changes: Any
) -> Ran | None:
    probe = FakeProbe(operations=operations)

    @contextmanager
    def opened(planned: Planned, console: Console) -> Iterator[FakeProbe]:
        yield probe

    noise = FakeNoise(night=0.0, process=0.002)
    script = FakeScript(noise=noise, effects=EFFECTS, trial_s=trial_s)
    usual: dict[str, Any] = {"workload": "batch_norm", "minutes": 5.0}
    quiet = Console(file=io.StringIO(), width=80)
    return bans(
        BansOptions(**usual | changes),
        quiet,
        FakeMachine(script=script, night=date(2026, 1, 1)),
        opened,
    )


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    found = _ran(results=str(tmp_path_factory.mktemp("bans") / "results"))
    assert found is not None
    return found


def _rows(ran: Ran) -> list[dict[str, Any]]:
    with open_database(ran.store, ran.session.sweep_id) as database:
        rows: list[dict[str, Any]] = database.ask("bans").to_pylist()
    return rows


def test_each_engine_is_banned_once_and_what_fails_or_loses_most_comes_first(ran: Ran) -> None:
    assert [str(each) for each in ran.session.contrasts] == ["ban: no → yes"]
    fails, loses = _rows(ran)
    assert (fails["ban"], fails["wall_verdict"]) == ("ConvBwdData:67", "fails")
    assert (loses["ban"], loses["wall_verdict"]) == ("ConvFwd:5", "hurts")
    assert loses["ratio_low"] < loses["ratio"] < loses["ratio_high"]
    assert loses["ratio"] == pytest.approx(3, rel=0.02)
    assert loses["banned_kernels"] == ["fallback"]
    assert loses["banned_l2_error"] == pytest.approx(2 * loses["usual_l2_error"])
    assert "errata" not in loses["other_settings"]


def test_the_answer_counts_verdicts_and_has_every_row(ran: Ran) -> None:
    answer, rows, _ = answered(BansOptions(workload="batch_norm"), ran)
    assert (answer.code, answer.headline) == (0, "2 bans of batch_norm: fails 1, hurts 1.")
    assert answer.values == {"bans": rows.to_pylist()}
    table, notes = answer.sections
    assert [row[table.head.index("ban")] for row in table.rows] == ["ConvBwdData:67", "ConvFwd:5"]
    assert notes.is_empty


@pytest.mark.slow
def test_the_command_prints_every_row_and_writes_its_answer(
    ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = Console(file=io.StringIO())
    monkeypatch.setattr(failing, "leave", sys.exit)  # the tests' process goes on
    module = import_module("cudnn_sweep.orchestrator.cli.advise")
    monkeypatch.setattr(module, "_begun", lambda options, **_: (options, quiet, None))
    monkeypatch.setattr(banning, "bans", lambda *_: ran)
    ended = invoke(["bans", "batch_norm", "--json", "--write", str(tmp_path / "price.json")])
    assert ended.exit_code == 0, ended.stderr
    rows = json.loads(ended.stdout)
    assert [row["ban"] for row in rows] == ["ConvBwdData:67", "ConvFwd:5"]
    assert ended.stderr == "2 bans of batch_norm: fails 1, hurts 1.\n"
    written = json.loads((tmp_path / "price.json").read_text())
    assert [row.keys() for row in written["bans"]] == [row.keys() for row in rows]
    (tmp_path / "full.md").symlink_to("/dev/full")
    full = invoke(["bans", "batch_norm", "--write", str(tmp_path / "full.md")])
    assert (full.exit_code, "ConvFwd:5" in full.stdout) == (6, True)


@pytest.mark.long
def test_the_same_command_resumes_what_was_cut() -> None:
    cut, again = _ran(trial_s=30.0, minutes=0.1), _ran()
    assert cut is not None
    assert again is not None
    assert again.session.sweep_id == cut.session.sweep_id
    assert (cut.exit_code, again.exit_code) == (6, 0)
    assert answered(BansOptions(workload="batch_norm"), cut)[0].code == cut.exit_code
    assert len(_rows(again)) == 2


@pytest.mark.slow
def test_a_suite_is_narrowed_and_options_of_a_model_are_not_for_it() -> None:
    ran = _ran(workload="quick", only=("problem=tutorials/rgb256",))
    assert ran is not None
    assert {row["problem"] for row in _rows(ran)} == {"tutorials/rgb256"}
    with pytest.raises(SpecError, match="found --input 8x3x8x8, which is for a model; quick is a"):
        _ran(workload="quick", input=("8x3x8x8",))


def test_cells_without_a_convolution_in_cudnn_are_not_measured() -> None:
    assert _ran(operations=[]) is None
    answer, rows, _ = answered(BansOptions(workload="batch_norm"), None)
    assert (answer.code, len(rows)) == (0, 0)
    assert answer.headline.startswith("Nothing to ban: no cell of batch_norm")


ENGINES = {"conv": "ConvFwd_eng5", "deconv": "ConvBwdData_eng0"}


@pytest.mark.parametrize(
    ("cells", "found", "warned"),
    [
        (["conv"], {"conv": ["ConvFwd:5"]}, 0),
        (["conv", "norm", "deconv"], {"conv": ["ConvFwd:5"], "deconv": ["ConvBwdData:0"]}, 0),
        (["norm"], {}, 0),
        (["fails", "conv"], {"conv": ["ConvFwd:5"]}, 1),
        (["conv", "fails"], {"conv": ["ConvFwd:5"]}, 1),
        (["fails", "norm"], None, 1),
        (["fails"], None, 1),
    ],
)
def test_a_cell_that_fails_is_left_out_unless_no_other_takes_an_engine(
    cells: list[str], found: dict[str, list[str]] | None, warned: int
) -> None:
    def of(trial: Any) -> Any:
        def log(config: object) -> Any:
            if trial.cell.cell_id == "fails":
                raise ModelError("it raises")
            tag = ENGINES.get(trial.cell.cell_id)
            return SimpleNamespace(logged_choices=[SimpleNamespace(engine=tag)] if tag else None)

        assert not trial.twin, "a twin runs the same"
        return SimpleNamespace(log=log)

    trials = [
        SimpleNamespace(twin=twin, config=None, cell=SimpleNamespace(cell_id=name))
        for name in cells
        for twin in (0, 1)
    ]
    looked: Any = SimpleNamespace(chosen=SimpleNamespace(trials=trials))
    said = io.StringIO()
    opened: Any = lambda *_: nullcontext(SimpleNamespace(of=of))
    if found is None:
        with pytest.raises(ModelError, match="uses an engine of cuDNN; left out: it raises"):
            banning._bans_by_cell(looked, Console(file=said, width=200), opened)
    else:
        assert banning._bans_by_cell(looked, Console(file=said, width=200), opened) == found
        engines = ", ".join(sorted(rule for rules in found.values() for rule in rules)) or "none"
        assert f"Engines that the cells use: {engines}." in said.getvalue()
    assert said.getvalue().count("left out: it raises") == warned


@pytest.mark.parametrize(
    ("code", "notes", "state"),
    [(ExitCode.FINE, 0, "fine"), (ExitCode.UNFINISHED, 1, "unfinished")],
)
def test_an_answer_that_is_cut_says_that_the_command_resumes(
    monkeypatch: pytest.MonkeyPatch, code: ExitCode, notes: int, state: str
) -> None:
    database = SimpleNamespace(
        ask=lambda *_, **__: pa.table({"wall_verdict": pa.array([], "string")})
    )
    monkeypatch.setattr(banning, "open_database", lambda *_: nullcontext(database))
    monkeypatch.setattr(banning, "marked_columns", lambda *_: [])
    ran: Any = SimpleNamespace(store=None, session=SimpleNamespace(sweep_id="s"), exit_code=code)
    answer, _, _ = answered(BansOptions(workload="net"), ran)
    assert answer.headline == "0 bans of net: no result."
    assert (answer.state, len(answer.sections[1].notes)) == (state, notes)


def test_an_engine_is_banned_with_all_of_its_plans_and_other_operations_are_let_be() -> None:
    tags = ["ConvFwd_eng5_k2=1_k3=0", "ConvFwd_eng5", "ConvBwdFilter_eng0_k2=1", "Conv_eng3"]
    assert bans_of(tags) == ["ConvBwdFilter:0", "ConvFwd:5"]


@pytest.mark.parametrize("benchmark", ["on", "off"])
def test_the_bans_of_a_recorded_log_meet_all_that_it_took_and_no_other_operation(
    benchmark: str,
) -> None:
    logged = read_log(Path(f"{LOGS}{benchmark}.log").read_text())
    taken = [operation.choice().engine for operation in logged]
    rules = [Rule.of(ban) for ban in bans_of(taken)]
    assert all(any(rule.bans(engine, 91900) for rule in rules) for engine in taken)
    assert {rule.operation for rule in rules} == {engine.partition("_")[0] for engine in taken}
