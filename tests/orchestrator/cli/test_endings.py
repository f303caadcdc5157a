"""How an error ends a command, what an audit says of a script's end, and what keeps pandas out."""

import errno
import io
import sys
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from cudnn_sweep.analysis.errors import AnalysisError, QueryError
from cudnn_sweep.cluster.errors import ClusterError, LocalRayError
from cudnn_sweep.orchestrator.cli import failing
from cudnn_sweep.orchestrator.cli.early import IMPORT, WithoutPandas
from cudnn_sweep.orchestrator.cli.failing import _came_of, _ending, _no_interrupt_dropped
from cudnn_sweep.orchestrator.errors import (
    ModelError,
    NeedsGpuError,
    OutputError,
    PythonError,
    ServerError,
    SpecError,
    SweepBusyError,
    exit_code_of,
)
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.workloads.errors import UserCodeError, WorkloadError

audit: Any = import_module("cudnn_sweep.orchestrator.cli.audit")  # the package has its command
report: Any = import_module("cudnn_sweep.orchestrator.cli.report")
query: Any = import_module("cudnn_sweep.orchestrator.cli.query")


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


def within(error: BaseException, *outer: BaseException) -> BaseException:
    """Return the last of the errors, each raised while the one before it was handled."""
    for each in outer:
        each.__context__, error = error, each
    return error


FULL, NO_ENTRY = OSError(errno.ENOSPC, "No space left on device"), OSError(errno.ENOENT, "gone")
FULL_FILE = OSError(errno.ENOSPC, "No space left on device", "night.html")
NO_FILE = OSError(errno.ENOENT, "No such file or directory", "suite.yaml")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SpecError("typo"), 2),
        (ModelError("raises"), 4),
        (NeedsGpuError("none"), 5),
        (SweepBusyError("busy"), 6),
        (ServerError("died"), 6),
        (PythonError("none"), 2),
        (OutputError("not written"), 2),
        (caused(OutputError("not written"), FULL), 6),
        (caused(OutputError("not written"), OSError(errno.EDQUOT, "quota")), 6),
        (caused(OutputError("not written"), NO_ENTRY), 2),
        (caused(NeedsGpuError("none"), ValueError()), 5),
        (LocalRayError("none"), 6),
        (ClusterError("down"), 2),
        (AnalysisError("no such column"), 2),
        (WorkloadError("no such problem"), 2),
        (UserCodeError("import"), 4),
        (FULL, 6),
        (NO_ENTRY, 2),
    ],
)
def test_an_error_has_the_exit_code_that_scripts_rely_upon(error: Exception, code: int) -> None:
    assert exit_code_of(error) == code


@pytest.mark.parametrize(
    ("error", "fails", "text", "code", "looked"),
    [
        (SpecError("typo"), False, "sweep: typo", ExitCode.USAGE, 0),
        (BrokenPipeError(), False, "", ExitCode.UNFINISHED, 1),
        (within(BrokenPipeError(), SystemExit(1)), False, "", ExitCode.UNFINISHED, 1),
        (within(KeyError(), SystemExit(3)), False, "", 3, 0),
        (SystemExit(15), False, "", ExitCode.TERMINATED, 0),
        (SystemExit(16), False, "", 16, 0),
        (SystemExit("a text"), False, "", ExitCode.UNFINISHED, 0),
        (FULL_FILE, False, "sweep: night.html: No space left on device", ExitCode.UNFINISHED, 0),
        (NO_FILE, False, "sweep: suite.yaml: No such file or directory", ExitCode.USAGE, 0),
        (FULL, True, "sweep: standard output: No space left on device", ExitCode.UNFINISHED, 1),
        (NO_ENTRY, False, "sweep: gone", ExitCode.UNFINISHED, 1),
        (OSError("odd"), False, "sweep: odd", ExitCode.UNFINISHED, 1),
        (within(BrokenPipeError(), ValueError("odd")), False, "", ExitCode.UNFINISHED, 0),
    ],
)
def test_an_error_ends_a_command_with_its_line_and_a_bug_with_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    fails: bool,
    text: str,
    code: int,
    looked: int,
) -> None:
    looks: list[bool] = []
    monkeypatch.setattr(failing, "_output_fails", lambda: bool(looks.append(fails)) or fails)  # type: ignore[func-returns-value]
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001
        found = _ending(caught)
    assert found[1] == code
    if isinstance(error, ValueError):
        assert found[0].endswith("ValueError: odd") and "Traceback" in found[0]
    else:
        assert found[0] == text
    assert len(looks) == looked


def test_an_error_came_of_one_that_was_being_handled() -> None:
    error = within(KeyboardInterrupt(), ValueError(), KeyError())
    assert _came_of(error, KeyboardInterrupt) and _came_of(error, KeyError)
    assert not _came_of(error, BrokenPipeError) and not _came_of(None, KeyError)


@pytest.mark.parametrize(("kind", "again"), [(KeyboardInterrupt, 1), (ValueError, 0)])
def test_an_interrupt_that_python_drops_comes_again(
    monkeypatch: pytest.MonkeyPatch, kind: type[BaseException], again: int
) -> None:
    started: list[float] = []
    usual: list[Any] = []
    monkeypatch.setattr(
        failing, "Timer", lambda after, *_: SimpleNamespace(start=lambda: started.append(after))
    )
    monkeypatch.setattr(sys, "unraisablehook", usual.append)
    before = sys.unraisablehook
    with _no_interrupt_dropped():
        sys.unraisablehook(SimpleNamespace(exc_type=kind))
    assert (len(started), len(usual)) == (again, 1 - again)
    assert sys.unraisablehook is before


def asks(name: str, module: str, *between: str) -> bool:
    """Return whether a module that imports `name`, through files of Python's own, finds none."""
    call: Any = WithoutPandas().find_spec
    for file in ("importer.py", *between)[::-1]:
        names: dict[str, Any] = {"__name__": module if file == "importer.py" else "importlib"}
        names["inner"] = call
        exec(compile("def step(name):\n    inner(name)\n", file, "exec"), names)  # noqa: S102
        call = names["step"]
    try:
        call(name)
    except ModuleNotFoundError as error:
        assert error.name == name
        return True
    return False


def test_pandas_is_hidden_from_pyarrow_dataset_alone() -> None:
    own = (f"{IMPORT}._bootstrap>", f"{IMPORT}._bootstrap_external>")
    assert asks("pandas", "pyarrow.dataset")
    assert asks("pandas", "pyarrow.dataset", *own)
    assert not asks("pandas", "ray.data", *own)
    assert not asks("pandas", "ray.data")
    assert not asks("numpy", "pyarrow.dataset", *own)
    assert not asks("pandas", "pyarrow.dataset", "between.py", *own)


@pytest.mark.parametrize(
    ("rank", "name"),
    [(None, "s.csv"), ("", "s.csv"), ("3", "s-rank3.csv"), ("0", "s-rank0.csv"), ("x", "s.csv")],
)
def test_each_rank_writes_a_file_of_its_own(
    monkeypatch: pytest.MonkeyPatch, rank: str | None, name: str
) -> None:
    monkeypatch.delenv("RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("RANK", rank)
    assert audit._of_rank(Path("s.csv")) == Path(name)


def audited(ended: str = "itself", code: int = 0, error: str | None = None, **of: Any) -> Any:
    findings = SimpleNamespace(wall_s=2.0, error=error, models=())
    usual = {"ended": ended, "exit_code": code, "findings": findings}
    return SimpleNamespace(**usual | {"request": SimpleNamespace(script="train.py")} | of)


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (audited(), "train.py ended after 2.00 s; exit code 0"),
        (
            audited(code=1, error="KeyError"),
            "train.py ended with KeyError after 2.00 s; exit code 1",
        ),
        (audited("limit"), "train.py was ended at its limit after 2.00 s"),
        (audited("interrupt", 130), "train.py was interrupted after 2.00 s; exit code 130"),
        (audited("signal", 137), "train.py was ended by a signal after 2.00 s; exit code 137"),
        (
            audited(code=137, findings=None),
            "train.py left no findings: it was killed, or was replaced by another program; exit code 137",
        ),
    ],
)
def test_an_audit_says_how_the_script_ended(of: Any, text: str) -> None:
    assert audit._ending(of) == text


@pytest.mark.parametrize(
    ("has_inputs", "has_findings", "suite", "files"),
    [
        (True, True, "suite", ["s.csv", "s.yaml"]),
        (True, True, None, ["s.csv"]),
        (False, True, "suite", []),
        (True, False, "suite", []),
    ],
)
def test_shapes_are_written_with_a_suite_if_one_can_name_the_model(
    monkeypatch: pytest.MonkeyPatch,
    here: Path,
    has_inputs: bool,
    has_findings: bool,
    suite: str | None,
    files: list[str],
) -> None:
    of = import_module("cudnn_sweep.orchestrator.auditing.audit")
    monkeypatch.setattr(of, "shapes_text", lambda *_: "shapes")
    monkeypatch.setattr(of, "suite_text", lambda *_: suite)
    found = audited() if has_findings else audited(findings=None)
    written = audit._write_shapes(found, "inputs" if has_inputs else None, Path("s.csv"))
    assert [str(file) for file in written] == files == sorted(file.name for file in here.iterdir())


@pytest.mark.parametrize(
    ("over", "watch", "made"),
    [([True], False, 1), ([False], False, 1), ([False, False, True], True, 3)],
)
def test_a_report_is_made_anew_until_each_sweep_has_ended(
    monkeypatch: pytest.MonkeyPatch, here: Path, over: list[bool], watch: bool, made: int
) -> None:
    left, slept = iter(over), list[float]()
    monkeypatch.setattr(report, "results_asked", lambda *_, **__: ["results"])
    monkeypatch.setattr(report, "_report", lambda *_: ("<html>", "headline", next(left)))
    monkeypatch.setattr(report, "sleep", slept.append)
    said: list[str] = []
    monkeypatch.setattr(report, "echo", said.append)
    report.report(watch=watch, format="html")
    assert len(said) == made and len(slept) == made - 1
    assert (here / "report.html").read_text() == "<html>"


@pytest.mark.parametrize(
    ("kind", "output", "page", "printed", "file"),
    [
        ("json", None, None, "text", None),
        ("json", Path("r.json"), None, "", "r.json"),
        ("html", None, "claims", "", "claims.html"),
        ("markdown", None, "claims", "text", None),
        ("html", Path("r.html"), None, "", "r.html"),
    ],
)
def test_a_report_is_printed_unless_it_is_html_or_has_a_file(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    here: Path,
    kind: Any,
    output: Path | None,
    page: str | None,
    printed: str,
    file: str | None,
) -> None:
    monkeypatch.setattr(report, "results_asked", lambda *_, **__: ["results"])
    monkeypatch.setattr(report, "_report", lambda *_: ("text", "headline", True))
    monkeypatch.setattr(report, "_page", lambda *_: ("text", "headline"))
    monkeypatch.setattr(report, "echo", lambda _: None)
    report.report(format=kind, output=output, page=page)
    assert capsys.readouterr().out == printed
    assert [each.name for each in here.iterdir()] == ([file] if file else [])


@pytest.mark.parametrize(
    ("ended", "is_over"), [([True, True], True), ([True, False], False), ([], False)]
)
@pytest.mark.parametrize(
    ("stored", "race", "shown"),
    [
        (["benchmark"], False, ["benchmark"]),
        (["twins"], False, ["twins"]),
        (["benchmark", "twins"], False, ["benchmark"]),
        (["benchmark", "twins"], True, ["race", "benchmark"]),
    ],
)
def test_a_report_is_of_every_contrast_and_of_twins_only_if_there_is_no_other(
    monkeypatch: pytest.MonkeyPatch,
    ended: list[bool],
    is_over: bool,
    stored: list[str],
    race: bool,
    shown: list[str],
) -> None:
    found: list[str] = []
    contrasts = import_module("cudnn_sweep.analysis.results.contrast")
    payloads = import_module("cudnn_sweep.analysis.report.payload")
    contents = import_module("cudnn_sweep.analysis.report.content")
    delivery = import_module("cudnn_sweep.analysis.report.delivery")
    say = import_module("cudnn_sweep.orchestrator.terminal.say")

    def gather(_: object, __: object, of: Any, ___: object) -> None:
        found.extend(getattr(each, "name", "race") for each in of)

    console = Console(file=io.StringIO())
    held = SimpleNamespace(hold_rows=lambda _: None)
    made = SimpleNamespace(
        tables={"sweeps": SimpleNamespace(answered=[{"has_ended": each} for each in ended])},
        nothing="",
        contrasts=[SimpleNamespace(headline="headline")],
    )
    of = [SimpleNamespace(name=name, is_twins=name == "twins") for name in stored]
    for module, name, value in (
        (report, "asking", lambda *_: nullcontext(held)),
        (report, "open_results", lambda _: None),
        (contrasts, "stored_contrasts", lambda _: of),
        (contrasts, "is_race", lambda _: race),
        (contrasts, "RACE", SimpleNamespace(name="race")),
        (contents, "asked", list),
        (contents, "gather", gather),
        (payloads, "payload", lambda _: made),
        (delivery, "as_html", lambda _: "text"),
        (say, "console_here", lambda **_: console),
    ):
        monkeypatch.setattr(module, name, value)
    assert report._report(["r"], None, 0.02, "html") == ("text", "headline", is_over)
    assert found == shown
    made.nothing = "no results"
    assert report._report(["r"], None, 0.02, "html")[1] == "no results"


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (None, "found none, allowed are "),
        ("--min-effect", "found --min-effect, allowed are "),
        ("--", "found --, allowed are "),
    ],
)
def test_a_question_comes_first(here: Path, question: str | None, message: str) -> None:
    with pytest.raises(QueryError, match=f"the question is missing or not first: {message}"):
        query._asked(question)
    assert query._asked("-- a comment\nselect 1").sql.endswith("select 1")
    (here / "own question.sql").write_text("-- Which?\nselect 2\n")
    assert query._asked("own question.sql").question == "Which?"


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ([], {}),
        (["--min-effect", "0.05"], {"min_effect": "0.05"}),
        (["--min-effect=0.05", "--a=b=c"], {"min_effect": "0.05", "a": "b=c"}),
        (["--a=", "--b", "--c"], {"a": "", "b": "--c"}),
    ],
)
def test_options_of_a_question_have_values(options: list[str], given: dict[str, str]) -> None:
    assert query._given(options) == given


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["fast"], "found 'fast' after the question, allowed are --NAME VALUE"),
        (["--min-effect"], "option --min-effect needs a value"),
    ],
)
def test_other_words_after_a_question_are_refused(options: list[str], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        query._given(options)
