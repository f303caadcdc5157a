"""Runs commands about a step: measures the step, prints the answer and writes it to files."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from cudnn_sweep.analysis.answers.answer import STATES, Answer, State, formats
from cudnn_sweep.orchestrator.errors import OutputError, SpecError, exit_code_of
from cudnn_sweep.orchestrator.steps.step_options import AdviseOptions, TurnOptions
from cudnn_sweep.orchestrator.terminal.say import say, warn
from cudnn_sweep.orchestrator.terminal.write_whole import is_stream, write_whole, written_anew

if TYPE_CHECKING:
    from cudnn_sweep.orchestrator.running.run_sweep import Place


def answer_step(
    measure: Callable[..., Answer],
    options: AdviseOptions | TurnOptions,
    console: Console,
    place: "Place",
    out: Console,
    *further: Any,
) -> int:
    """Call `measure`, print and write its answer, and return the exit code."""
    from cudnn_sweep.orchestrator.running.run_sweep import open_results  # slow to import

    with reported(options.write, measure.__name__, options.workload):
        if not options.measures_nothing:
            open_results(options.location, console)
        answer = measure(options, console, place, *further)
    return deliver(answer, options.write, console, out, is_json=options.json)


def deliver(
    answer: Answer, files: Sequence[str], console: Console, out: Console, *, is_json: bool
) -> int:
    def show() -> None:
        text = formats()[".json" if is_json else ".txt"].render(answer).rstrip()
        first, _, rest = f"{text}\n".partition("\n")
        say(out, first if is_json else f"\n{first}", "" if is_json else "bold")
        say(out, rest.rstrip())

    return shown_and_written(show, answer, files, console)


def shown_and_written(
    show: Callable[[], None], answer: Answer, files: Sequence[str], console: Console
) -> int:
    """Call `show`, write the answer and its files, and return the exit code."""
    code = answer.code
    try:
        show()
    finally:  # even if standard output is closed
        for write in (
            *(partial(_keep, file, text, console) for file, text in answer.files.items()),
            *(partial(_write, [file], answer) for file in files),
        ):
            try:
                write()
            except OutputError as error:  # the other files are still written
                warn(console, f"sweep: {error}")
                code = code or exit_code_of(error)
    return code


@contextmanager
def reported(files: Sequence[str], kind: str, subject: str) -> Iterator[None]:
    """Write an unfinished answer to each file. Write the error if the `with` block fails."""

    def no_answer(reason: str, state: State, *, streams: bool = True) -> None:
        headline = f"No answer: {reason}"
        none = Answer(kind=kind, subject=subject, state=state, headline=headline)
        _write(files, none, streams=streams)

    for file in files:
        if Path(file).suffix not in formats():
            raise SpecError(f"--write {file}: the name must end in one of {', '.join(formats())}")
    # removes an older answer, even if the command is killed later
    no_answer("the command has not ended", "unfinished", streams=False)
    try:
        yield
    except Exception as error:
        with suppress(OutputError):
            no_answer(str(error), STATES.get(exit_code_of(error), "cannot tell"))
        raise


def _keep(file: str, text: str, console: Console) -> None:
    with written_anew(Path(file)) as made:
        made.write_text(text)
    say(console, f"Written: {file}")


def _write(files: Sequence[str], answer: Answer, *, streams: bool = True) -> None:
    for file in map(Path, files):
        if streams or not is_stream(file):
            write_whole(file, formats()[file.suffix].render(answer))
