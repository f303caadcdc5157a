"""No command ends in a traceback for a path that cannot be read or written."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from inspect import signature
from pathlib import Path
from typing import NamedTuple, NoReturn, get_args

import pytest
import typer
from typer.models import ArgumentInfo

from cudnn_sweep.orchestrator.cli import app, failing
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.process.client import ForkServer
from tests.orchestrator.typed import invoke

TEXTS = ("results", "suite", "question", "model")  # parameters that take a path, among others
ARGUMENTS = {"compare": ("2.9.0", "2.10.0"), "query": ("sweeps",), "trace": ("torch.nn:Conv2d",)}
ARGUMENTS |= {
    "advise": ("noop", "--from-store"),
    "freeze": ("noop",),
    "gate": (".", ".", "noop"),
    "bisect": ("noop", "--pythons", "one,other"),
    "bans": ("noop",),
    "audit": ("one.py",),
    "repro": ("0123",),
}
NO_PATHS = {("audit", "model")}  # the name of a class
OPTIONS = {
    # What a command is given besides, so that the path is all that is wrong and the answer is quick.
    "doctor": "--quick --telemetry off",
    "nightly": "--no-measure",
    "trace": "--input 1x3x8x8 --argument in_channels=3 --argument out_channels=3 --argument kernel_size=3",
}
SUFFIXES = {"question": ".sql", "model": ".py:net"}
FOLDERS = ("results", "reports")


class PathParameter(NamedTuple):
    command: str
    name: str
    is_argument: bool


def _commands(
    commands: typer.Typer, above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Callable[..., object]]]:
    for each in commands.registered_commands:
        assert each.callback is not None
        yield (*above, each.name or each.callback.__name__), each.callback
    for group in commands.registered_groups:
        inner = group.typer_instance
        assert inner is not None
        name = str(inner.info.name)
        if inner.registered_callback and inner.registered_callback.callback:
            yield (*above, name), inner.registered_callback.callback
        yield from _commands(inner, (*above, name))


def _path_parameters() -> Iterator[PathParameter]:
    for command, function in _commands(app):
        for name, parameter in signature(function).parameters.items():
            hint = parameter.annotation
            if (*command, name) in NO_PATHS:
                continue
            if name in TEXTS or Path in _types(hint):
                is_argument = any(isinstance(each, ArgumentInfo) for each in get_args(hint))
                yield PathParameter(" ".join(command), name, is_argument)


def _types(hint: object) -> tuple[object, ...]:
    """Of `Annotated[Path | None, ...]`: Path and None."""
    inner = get_args(hint)[0] if hasattr(hint, "__metadata__") else hint
    return get_args(inner) or (inner,)


PARAMETERS = sorted(_path_parameters())


def test_every_path_that_a_command_takes_is_found() -> None:
    """Or else nothing below is tried."""
    commands = {parameter.command for parameter in PARAMETERS}
    assert commands > {*ARGUMENTS, *OPTIONS, "launch", "report", "cluster pull"}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: ForkServer) -> Path:
    """A folder with a launch file, a file and a folder, where no command leaves this process or starts a
    fork server.
    """

    def exit_with(code: int) -> NoReturn:
        raise SystemExit(code)

    monkeypatch.setattr(failing, "leave", exit_with)
    for user in ("doctor.examine", "process.client", "running.this_machine"):
        module = f"cudnn_sweep.orchestrator.{user}"
        monkeypatch.setattr(f"{module}.ForkServer", lambda **_: nullcontext(server))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cluster.yaml").write_text(
        "metadata: {sweep: {suite: one.yaml, nightly: {suite: one.yaml}}}\n"
    )
    (tmp_path / "one.yaml").write_text("cells: [workload: noop]\nconfigs: [{}]\nreplicates: 2\n")
    (tmp_path / "file").touch()
    (tmp_path / "results").mkdir()
    for suffix in ("yaml", "sql", "py"):
        (tmp_path / f"folder.{suffix}").mkdir()
    return tmp_path


@pytest.mark.parametrize("parameter", PARAMETERS, ids=lambda each: f"{each.command} {each.name}")
@pytest.mark.parametrize("path", ["file/below", "folder"])
def test_a_path_that_is_none_is_a_mistake_in_one_line(
    here: Path, parameter: PathParameter, path: str
) -> None:
    if path == "folder" and parameter.name in FOLDERS:
        return
    path += SUFFIXES.get(parameter.name, ".yaml")
    command = parameter.command
    others = [*command.split(), *OPTIONS.get(command, "").split()]
    beside = () if parameter.name == "export" else ARGUMENTS.get(command, ())
    given = (path,) if parameter.is_argument else (f"--{parameter.name}", path, *beside)
    done = invoke([*others, *given])
    assert isinstance(done.exception, SystemExit) or done.exception is None, done.exception
    assert "Usage:" not in done.output, "the path is all that is wrong"
    assert done.exit_code in (ExitCode.WORSE, ExitCode.USAGE, ExitCode.CANNOT_TELL), done.output
    assert path.partition(":")[0] in done.output
