"""The line that `sweep schedule` prints; a real cron daemon starts what it is given."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import date, time
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

import pytest

from cudnn_sweep.orchestrator.nightly.schedule import absolute, crontab_line, parse_time
from cudnn_sweep.orchestrator.running.this_machine import ThisMachine
from tests.fake_machine import FakeMachine, FakeScript
from tests.orchestrator.typed import invoke

if TYPE_CHECKING:
    from tests.makers import Need

ODD = 'it\'s 100% "o d d" $HOME \\% \\'
NIGHT = f"""\
#!{sys.executable}
import json, os, sys
print(json.dumps([os.getcwd(), *sys.argv]), flush=True)
print("to standard error", file=sys.stderr)
"""
# In namespaces of mounts and processes: cron sees a /var/spool/cron of its own, and ends with the test.
CRON = r"""
set -eu
mount -t tmpfs none /run
mount -t tmpfs none /var/spool/cron
[ "$(stat -f -c %T /var/spool/cron)" = tmpfs ]  # or else the script ends here
install -d -m 1730 -g crontab /var/spool/cron/crontabs
mount -t tmpfs none /etc/cron.d
: >/run/no_crontab
mount --bind /run/no_crontab /etc/crontab
printf '%s\n' "$LINE" | crontab -
cron -f &
for _ in $(seq 150); do
    if grep -q standard "$LOG" 2>/dev/null; then break; fi
    sleep 0.5
done
"""


@pytest.fixture
def no_survey(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that surveys this machine takes seconds."""
    look = FakeMachine(script=FakeScript(), night=date(2026, 11, 1)).look
    monkeypatch.setattr(ThisMachine, "look", lambda self, suite: look(suite))


def test_time_reads() -> None:
    assert [parse_time(text) for text in ("00:00", "23:59")] == [time(0, 0), time(23, 59)]


def test_file_has_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path / "real")
    ways = ("nightly.yaml", "../real/nightly.yaml", "../link/nightly.yaml")
    assert {absolute(Path(way)) for way in ways} == {tmp_path / "real" / "nightly.yaml"}


def test_line_is_printed_and_nothing_is_written(no_survey: None, tmp_path: Path) -> None:
    file = tmp_path / "my cluster.yaml"
    file.write_text("metadata: {sweep: {nightly: {suite: quick}}}")
    line = invoke(["schedule", str(file), "--at", "02:30"]).stdout
    assert line.startswith(f"30 2 * * * cd {tmp_path} && exec ")
    assert line.endswith(f"nightly '{file}' >> './my cluster.nightly.log' 2>&1\n")
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_networks_that_a_night_leaves_out_are_told(
    no_survey: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    file = tmp_path / "cluster.yaml"
    file.write_text("cluster_name: lab")
    told = invoke(["schedule", str(file), "--at", "02:30"])
    assert told.exit_code == 0
    assert "hint: a night leaves out torchvision.models:resnet50: " in told.stderr


@pytest.mark.waiting
@pytest.mark.slow
def test_cron_starts_the_night_in_its_folder(need: Need, tmp_path: Path) -> None:
    need(os.geteuid() == 0, "root")
    for command in ("unshare", "cron", "crontab"):
        need(which(command) is not None, command)
    folder, program = tmp_path / ODD, tmp_path / "100% of it" / "sweep"
    folder.mkdir()
    program.parent.mkdir()
    program.write_text(NIGHT)
    program.chmod(0o755)
    file, log = folder / "cluster.yaml", folder / "cluster.nightly.log"
    line = crontab_line(file, [str(program)], time(0, 0)).replace("0 0", "* *", 1)
    subprocess.run(
        [
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "bash",
            "-c",
            CRON,
        ],
        env={**os.environ, "LINE": line, "LOG": str(log)},
        check=True,
        timeout=240,
    )
    started, complaint = log.read_text().splitlines()[:2]
    assert json.loads(started) == [str(folder), str(program), "nightly", str(file)]
    assert complaint == "to standard error"
