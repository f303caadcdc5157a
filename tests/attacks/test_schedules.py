"""Odd folders, names and programs in a crontab: a line runs what it is for, or is refused; nothing else runs."""

import random
import subprocess
from collections import Counter
from collections.abc import Callable
from datetime import time
from pathlib import Path

from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.nightly.schedule import crontab_line

PARTS = ["$(touch pwned)", "`touch pwned`", "; touch pwned #", "\n* * * * * touch pwned", " ", "\t"]
PARTS += [*"a%\\'\"\u202eé#&|~*!", "\\%", "$HOME", "x" * 60]
PROGRAM = '#!/bin/sh\nprintf \'%s\\n\' "$PWD" "$@" >> "{told}"\n'


def test_schedule_runs_what_it_is_for_or_is_refused(
    tmp_path: Path, attempts: Callable[[int, int], int], seed: int
) -> None:
    dice, ends = random.Random(seed), Counter[str]()
    for number in range(attempts(40, 250)):
        root = tmp_path / f"{number}"
        name = "".join(dice.choices(PARTS, k=dice.randint(1, 4))).replace("/", "").strip(".") or "x"
        folder = root / name
        program, told = folder / f"{name} sweep", root / "told"
        file = folder / f"{name}.yaml"
        try:
            line = crontab_line(file, [str(program)], time(2, 30))
        except SpecError:
            ends["refused"] += 1
            continue
        try:
            folder.mkdir(parents=True)
            program.write_text(PROGRAM.format(told=told))
        except OSError:  # longer than names may be
            continue
        program.chmod(0o755)
        subprocess.run(["sh", "-c", as_cron_does(line)], cwd=root, check=True)
        assert told.read_text().split("\n") == [str(folder), "nightly", str(file), ""]
        assert not list(tmp_path.rglob("pwned"))
        ends["ran"] += 1
    print(dict(ends))


def as_cron_does(line: str) -> str:
    """The command of a line: what stands behind the first bare `%` is its input, and a `\\%` is a `%`."""
    command = line.split(" ", 5)[5]
    said, at = "", 0
    while at < len(command):
        if command[at : at + 2] == "\\%":
            said, at = said + "%", at + 2
        elif command[at] == "%":
            break
        else:
            said, at = said + command[at], at + 1
    return said
