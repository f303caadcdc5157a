"""What `sweep schedule` would install, without a cron daemon or systemd."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import date, datetime, time
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

import pytest

from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.nightly.fake.machine import FakeMachine, FakeScript
from cudnn_sweep.orchestrator.running.this_machine import ThisMachine
from cudnn_sweep.orchestrator.schedule import schedule
from cudnn_sweep.orchestrator.schedule.schedule import (
    CRON,
    Entry,
    absolute,
    key_of,
    next_time_of,
    parse_time,
)
from tests.orchestrator.typed import invoke

if TYPE_CHECKING:
    from tests.makers import Need


@pytest.fixture(autouse=True)
def no_survey(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that surveys this machine takes seconds."""
    look = FakeMachine(script=FakeScript(), night=date(2026, 11, 1)).look
    monkeypatch.setattr(ThisMachine, "look", lambda self, suite: look(suite))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))


OTHERS = "MAILTO=me\r\n# mine: 30 2 * * *\n\n0 5 * * * backup \\%d \udce9\x0b # cudnn-sweeper"
ODD = 'it\'s 100% "o d d" $HOME \\% \\'


def entry_of(file: Path, at: str = "02:30", program: str = "/opt/sweep") -> Entry:
    return Entry(launch_file=file, program=(program,), at=parse_time(at))


def test_time_reads() -> None:
    assert [parse_time(text) for text in ("00:00", "23:59")] == [time(0, 0), time(23, 59)]


def test_file_has_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path / "real")
    ways = ("nightly.yaml", "../real/nightly.yaml", "../link/nightly.yaml")
    assert {absolute(Path(way)) for way in ways} == {tmp_path / "real" / "nightly.yaml"}


def test_next_time_is_the_coming_one() -> None:
    found = next_time_of(entry_of(Path("/srv/one.yaml"), "00:00").line)
    coming = datetime.strptime(" ".join(found.split()[1:3]), "%Y-%m-%d %H:%M:%S")
    assert 0 < (coming - datetime.now()).total_seconds() <= 25 * 3600
    assert coming.time() == time(0, 0)
    assert "changed by hand" in next_time_of("@daily sweep nightly # cudnn-sweep 0")


def systemds_words(line: str) -> list[str]:
    """As systemd parts ExecStart, for what we write: words, and one in double quotes."""
    *words, quoted = line.rstrip('"').split(" ", 2)
    return [*words, re.sub(r"\\(.)", r"\1", quoted[1:]).replace("%%", "%")]


def test_units_pass_systemds_own_check(tmp_path: Path, need: Need) -> None:
    need(which("systemd-analyze") is not None, "systemd-analyze")
    folder = tmp_path / ODD
    folder.mkdir()
    program = tmp_path / "100% of $HOME" / "sweep"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)

    def verify(entry: Entry) -> subprocess.CompletedProcess[str]:
        for path, text in entry.units().items():
            (tmp_path / path.name).write_text(text)
        return subprocess.run(
            ["systemd-analyze", "--user", "verify", *sorted(tmp_path.glob("cudnn-sweep-*"))],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        )

    file = folder / "cluster.yaml"
    told = verify(entry_of(file, program=str(program)))
    assert (told.returncode, told.stdout, told.stderr) == (0, "", "")
    (service,) = tmp_path.glob("cudnn-sweep-*.service")
    words = systemds_words(service.read_text().partition("ExecStart=:")[2].partition("\n")[0])
    assert words == ["/bin/sh", "-c", entry_of(file, program=str(program)).command]


def test_timer_goes_where_no_manager_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = Path("/srv/one.yaml"), Path("/srv/two.yaml")
    folder = tmp_path / "systemd" / "user"
    (folder / "timers.target.wants").mkdir(parents=True)
    for file in (mine, other):
        for unit in (f"cudnn-sweep-{key_of(file)}.{kind}" for kind in ("service", "timer")):
            (folder / unit).write_text("[Unit]\n")
        (folder / "timers.target.wants" / unit).symlink_to(folder / unit)
    (tmp_path / "env").symlink_to(which("env") or "")
    monkeypatch.setenv("PATH", str(tmp_path))
    (found,) = schedule.find(mine)
    assert found.next_time == "unknown: no systemd user manager answers"
    assert schedule.remove(mine) == ["systemd user timer"]
    assert not schedule.find(mine) and not schedule.remove(mine)
    assert all(key_of(other) in path.name for path in folder.rglob("cudnn-sweep-*"))
    assert len(list(folder.rglob("cudnn-sweep-*"))) == 3
    with pytest.raises(SpecError, match="no command `systemctl`; crontab: .* `crontab`"):
        schedule.choose(None)


def test_dry_run_prints_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "my cluster.yaml"
    file.write_text("metadata: {sweep: {nightly: {suite: quick}}}")
    words = ["schedule", "install", str(file), "--at", "02:30", "--dry-run"]
    line = invoke([*words, "--cron"]).stdout
    assert line.startswith("30 2 * * * exec >> ")
    assert f" 2>&1; cd {tmp_path} && exec " in line and f"nightly '{file}' # cudnn-sweep " in line
    units = invoke([*words, "--systemd"]).stdout
    assert "OnCalendar=*-*-* 02:30:00" in units and f"nightly '{file}'\"\n" in units
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_networks_that_a_night_leaves_out_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    file = tmp_path / "cluster.yaml"
    file.write_text("cluster_name: lab")
    words = ["schedule", "install", str(file), "--at", "02:30", "--cron", "--dry-run"]
    told = invoke(words)
    assert told.exit_code == 0
    assert "hint: a night leaves out torchvision.models:resnet50: " in told.stderr


FAKE_CRONTAB = """#!/bin/sh
case "$1" in
-l) [ -e {kept} ] && cat {kept} || {{ echo "{complaint}" >&2; exit 1; }} ;;
-) cat > {kept} ;;
esac
"""


def fake_crontab(folder: Path, complaint: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's crontab."""
    command, kept = folder / "crontab", folder / "kept"
    command.write_text(FAKE_CRONTAB.format(kept=kept, complaint=complaint))
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return kept


def test_crontab_of_others_is_the_same_to_the_byte_after_install_and_remove(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = fake_crontab(tmp_path, "no crontab for me", monkeypatch)
    entry = entry_of(tmp_path / "one.yaml")
    others = f"{OTHERS}\n".encode(errors="surrogateescape")
    kept.write_bytes(others)
    schedule.install(entry, CRON)
    assert kept.read_bytes() == others + f"{entry.line}\n".encode()
    (found,) = schedule.find(entry.launch_file)
    assert (found.by, found.text) == ("crontab", entry.line)
    assert schedule.remove(entry.launch_file) == ["crontab"]
    assert kept.read_bytes() == others


@pytest.mark.parametrize("complaint", ["no crontab for me", "disk error"])
def test_crontab_that_cannot_be_read_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complaint: str
) -> None:
    kept = fake_crontab(tmp_path, complaint, monkeypatch)
    entry = entry_of(tmp_path / "one.yaml")
    if complaint.startswith("no crontab"):
        schedule.install(entry, CRON)
        assert kept.read_text() == f"{entry.line}\n"
        return
    with pytest.raises(SpecError, match="`crontab -l`: disk error"):
        schedule.install(entry, CRON)
    assert not kept.exists()
