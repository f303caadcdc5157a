"""The command `sweep doctor`."""

import json as json_format
from contextlib import nullcontext
from dataclasses import asdict
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer

from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.planning.spelling import AtLeast
from cudnn_sweep.workloads.hardware.monitor import MonitorKind

if TYPE_CHECKING:
    from rich.text import Text

    from cudnn_sweep.orchestrator.doctor.checks import Check

PLAIN_WIDTH = 100  # columns if the output is not a terminal
STATE_STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red"}
STATE_WIDTH, NAME_WIDTH = 7, 17
REFRESHES_PER_S = 1  # low, so that the spinner does not disturb the self-test
SELF_TEST_S = 20.0  # enough for ten pairs on two CPU cores


def doctor(
    results: Annotated[
        str | None, "Folder or URL to check. Default: `results` in ./cluster.yaml, or ./results."
    ] = None,
    quick: Annotated[bool, "Do not start Ray and do not measure."] = False,
    seconds: Annotated[float, AtLeast(0.0), "Duration of the self-test in seconds."] = SELF_TEST_S,
    telemetry: Annotated[
        MonitorKind, "SOURCE", "nvml, off, or a fake source such as fake_calm."
    ] = "nvml",
    json: Annotated[bool, "Print the checks as JSON."] = False,
) -> None:
    """Check this machine's software, GPUs, disks and Ray, and run a self-test.

    The self-test measures two identical configs, and reports how small a difference it can detect.
    """
    from cudnn_sweep.analysis.words import counted
    from cudnn_sweep.orchestrator.cli.failing import leave
    from cudnn_sweep.orchestrator.doctor.checks import worst
    from cudnn_sweep.orchestrator.doctor.examine import examine
    from cudnn_sweep.orchestrator.planning.spec import results_of_the_launch_file
    from cudnn_sweep.orchestrator.terminal.say import console_here, say

    console = console_here(plain_width=PLAIN_WIDTH)
    checks: list[Check] = []
    location = results or results_of_the_launch_file()
    with nullcontext() if json else console.status("checking", refresh_per_second=REFRESHES_PER_S):
        for check in examine(location, seconds, telemetry, quick=quick):
            checks.append(check)
            if not json:
                console.print(_drawn(check, console.width), highlight=False)
    if json:
        found = {"state": worst(checks), "checks": [asdict(check) for check in checks]}
        typer.echo(json_format.dumps(found, indent=2, ensure_ascii=False))
    else:
        states = [check.state for check in checks]
        counts = (counted(states.count(state), state) for state in ("problem", "warning"))
        say(console, f"\n{', '.join(counts)} in {len(checks)} checks")
    leave(ExitCode.WORSE if worst(checks) == "problem" else ExitCode.FINE)


def _drawn(check: "Check", width: int) -> "Text":
    from rich.text import Text

    head = f"{check.state:<{STATE_WIDTH}}  {check.name:<{NAME_WIDTH}}  "
    margin = " " * len(head)
    lines = [check.found, *[f"→ {check.advice}"] * bool(check.advice)]
    filled = (fill(line, width, initial_indent=margin, subsequent_indent=margin) for line in lines)
    drawn = Text(head + "\n".join(filled)[len(head) :])
    drawn.stylize(STATE_STYLES[check.state], 0, STATE_WIDTH)
    return drawn
