"""A real cron daemon and a real systemd user manager start what `sweep schedule install` gave them.

Both run in namespaces of mounts and processes: they see a /var/spool/cron, a /run and a home of their
own, never the machine's, and end with the test. Both wait for the same minute.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.makers import Need

pytestmark = [pytest.mark.waiting, pytest.mark.slow]

OTHERS = "# mine\nA=1 %\n0 5 31 2 * true # cudnn-sweep\n"
MANAGER = next(filter(which, ("/usr/lib/systemd/systemd", "/lib/systemd/systemd")), None)
LIMIT_S = 240  # a minute for the clock, the rest for a slow machine

# Its commands are the real ones, but for the night, which says where and how it was started.
SWEEP = f"""\
#!{sys.executable}
import json, os, sys
if sys.argv[1] == "nightly":
    print(json.dumps([os.getcwd(), *sys.argv]), flush=True)
    print("to standard error", file=sys.stderr)
else:
    from cudnn_sweep.orchestrator.cli import app
    app()
"""

SCRIPT = r"""
set -eu
mount -t tmpfs none /run
mount -t tmpfs none /var/spool/cron
[ "$(stat -f -c %T /var/spool/cron)" = tmpfs ]  # or else the script ends here
install -d -m 1730 -g crontab /var/spool/cron/crontabs
mount -t tmpfs none /etc/cron.d
: >/run/no_crontab
mount --bind /run/no_crontab /etc/crontab
mkdir -p /run/systemd/system -m 700 /run/user
export XDG_RUNTIME_DIR=/run/user HOME="$PWD/home"
unset XDG_CONFIG_HOME XDG_STATE_HOME DBUS_SESSION_BUS_ADDRESS

"$MANAGER" --user >manager 2>&1 &
for _ in $(seq 50); do
    if systemctl --user show --property=Version >/dev/null 2>&1; then touch answers; break; fi
    sleep 0.1
done

printf '%s' "$OTHERS" | crontab -
cron -f &
install_both() {
    "$SWEEP" schedule install "$ODD/cron.yaml" --at "$1" --cron >show_cron 2>hints_cron
    # Without a choice, as a manager answers.
    [ ! -e answers ] || "$SWEEP" schedule install "$ODD/timer.yaml" --at "$1" >show_timer 2>hints_timer
}
if [ -e answers ]; then  # one is to move from there to cron, the other to get another time
    "$SWEEP" schedule install "$ODD/cron.yaml" --at 00:00
    "$SWEEP" schedule install "$ODD/timer.yaml" --at 00:00
fi >earlier 2>&1
until
    minute=$((($(date +%s) + 65) / 60 * 60))
    install_both "$(date -d @$minute +%H:%M)"
    [ "$(date +%s)" -lt $minute ]
do  # too slow: what that minute started is not awaited
    sleep 3
    rm -f home/.local/state/cudnn-sweep/*.log
done
date -d @$minute '+%Y-%m-%d %H:%M:%S' >minute
crontab -l >crontab_installed
find home/.config -name '*.timer' -type f >timers_installed
awaited=$((1 + $(find answers 2>/dev/null | wc -l)))
for _ in $(seq 150); do
    if [ "$(cat home/.local/state/cudnn-sweep/*.log 2>/dev/null | grep -c standard)" = $awaited ]; then break; fi
    sleep 0.5
done
"$SWEEP" schedule remove "$ODD/cron.yaml" >removed
crontab -l >crontab_left
if [ -e answers ]; then
    "$SWEEP" schedule remove "$ODD/timer.yaml" >>removed
    systemctl --user list-timers --all --no-legend >timers_left
    systemctl --user exit
fi
"""


@dataclass(frozen=True, kw_only=True)
class Night:
    """What the script left in its folder."""

    folder: Path

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    @property
    def odd(self) -> Path:
        return self.folder / 'it\'s 100% "o d d" $HOME \\% \\'

    def shown(self, name: str) -> dict[str, str]:
        head = self.text(name).partition("\n\n")[0]
        return {line[:7].strip(): line[7:] for line in head.splitlines()}

    def check_log(self, by: str) -> None:
        """It started once, from the launch file's folder, with the words that it was to have."""
        started, complaint = Path(self.shown(f"show_{by}")["log"]).read_text().splitlines()
        program, file = self.folder / "100% of it" / "sweep", self.odd / f"{by}.yaml"
        assert json.loads(started) == [str(self.odd), str(program), "nightly", str(file)]
        assert complaint == "to standard error"


@pytest.fixture(scope="module")
def night(need: Need, tmp_path_factory: pytest.TempPathFactory) -> Night:
    need(os.geteuid() == 0, "root")
    for command in ("unshare", "cron", "crontab"):
        need(which(command) is not None, command)
    night = Night(folder=tmp_path_factory.mktemp("night"))
    (night.folder / "home").mkdir()
    night.odd.mkdir()
    for by in ("cron", "timer"):
        (night.odd / f"{by}.yaml").write_text("metadata: {sweep: {nightly: {suite: quick}}}")
    program = night.folder / "100% of it" / "sweep"
    program.parent.mkdir()
    program.write_text(SWEEP)
    program.chmod(0o755)
    own = {"OTHERS": OTHERS, "ODD": str(night.odd), "SWEEP": str(program), "MANAGER": str(MANAGER)}
    unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    before = _cgroups()
    try:
        subprocess.run(
            [*unshare, "bash", "-c", SCRIPT],
            cwd=night.folder,
            env={**os.environ, **own},
            check=True,
            timeout=LIMIT_S,
        )
    finally:
        for group in _cgroups() - before:
            with suppress(OSError):  # another's, with processes in it
                group.rmdir()
    return night


def _cgroups() -> set[Path]:
    """Of a manager's own process: the one thing that is left outside when it has ended."""
    return set(Path("/sys/fs/cgroup").rglob("init.scope"))


def test_cron_starts_the_night_in_its_folder(night: Night) -> None:
    night.check_log("cron")
    shown = night.shown("show_cron")
    assert shown["by"] == "crontab" and night.text("minute").strip() in shown["next"]
    assert night.text("hints_cron") == ""  # a daemon runs


def test_crontab_of_others_is_left(night: Night) -> None:
    installed = night.text("crontab_installed")
    assert installed.startswith(OTHERS)
    assert installed.count("\n") == OTHERS.count("\n") + 1
    assert night.text("crontab_left") == OTHERS
    assert night.text("removed").startswith("Removed from crontab: ")


def test_user_timer_starts_the_night_in_its_folder(need: Need, night: Night) -> None:
    need((night.folder / "answers").exists(), "a systemd user manager that starts in a namespace")
    night.check_log("timer")
    shown = night.shown("show_timer")
    assert shown["by"] == "systemd user timer" and night.text("minute").strip() in shown["next"]
    assert "loginctl enable-linger" in night.text("hints_timer")
    assert night.text("timers_installed").count("\n") == 1
    assert night.text("timers_left") == ""
    units = night.folder / "home" / ".config" / "systemd" / "user"
    assert not [path for path in units.rglob("*") if not path.is_dir()]
