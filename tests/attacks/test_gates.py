"""Gates and bisections under attack: the repository stays as it was, the exit code is right, nothing is left."""

import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests import processes
from tests.attacks.test_launches import Attempts, Launch, ended, kill, left_behind, prepare
from tests.repositories import ALONE, commit, git, made, state

pytestmark = [pytest.mark.measuring, pytest.mark.slow, pytest.mark.timeout(600)]

# The product, but less patient with a step that hangs where it is imported.
GATE = """
from cudnn_sweep.orchestrator.process import client
client.SURVEY_TIMEOUT_S = 30.0
from cudnn_sweep.orchestrator.cli import app
app(prog_name="sweep")
"""
STEP = """
import os, signal, sys, time
import torch
def step(images: torch.Tensor) -> None:
    time.sleep(0.002)
"""
FILES = 20_000
LONG_S = 240.0  # a gate of 18 s where others keep the cores busy
UNDISTURBED = {0, 3}  # equal sides; on a CPU few blocks may not suffice
SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}
IMPORTED = {
    "os._exit": "os._exit(0)",
    "sys.exit": "sys.exit()",
    "parent": "os.kill(os.getppid(), signal.SIGKILL)",
    "hang": "time.sleep(1000)",
    "raise": "torch.absent",
}
NAMES = [
    "ünï-☃",
    "a;touch${IFS}pwned;b",
    "$(touch${IFS}pwned)",
    'it\'s"quoted"',
    "`touch${IFS}pwned`",
    "a|b&c>d",
    "@",
]
MISTYPED = ["-x", "--help-me", "", "HEAD:step.py", "^HEAD", "no\nwhere", "-c core.pager=x"]


@dataclass(kw_only=True)
class Field:
    """Where gates are attacked."""

    folder: Path
    repository: Path
    dice: random.Random
    number: int = 0
    ends: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def begun(
        self, *words: str, out: Path | None = None, command: list[str] | None = None, at: str = "."
    ) -> Iterator[Launch]:
        """A gate, or a git command whose hook calls one. What is left of it at the end is killed."""
        self.number += 1
        folder = prepare(self.folder / f"{self.number}")
        output = folder / "output"
        own = {"TMPDIR": str((folder / "tmp").resolve()), "CUDA_VISIBLE_DEVICES": ""}
        with output.open("ab") as file, (out or output).open("ab") as stream:
            process = subprocess.Popen(
                command or self.words(folder, *words),
                cwd=self.repository / at,
                env=os.environ | ALONE | own,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=file,
                start_new_session=True,
            )
        with ended(Launch(folder=folder, process=process, output=output)) as launch:
            yield launch

    def words(self, folder: Path | str, *words: str, command: str = "gate") -> list[str]:
        options = ["--minutes", "0.3", "--input", "1x1", "--results", f"{folder}/results"]
        return [sys.executable, "-c", GATE, command, *options, *words]

    def end(self, launch: Launch, kind: str, allowed: set[int], before: object) -> int:
        """Wait for it, and look at what it left."""
        code = launch.process.wait(LONG_S)
        self.ends[f"{kind}: {code}"] += 1
        print(f"{kind}: {code}", flush=True)
        assert code in allowed, f"{kind}: {code} is none of {allowed}"
        assert "Traceback" not in launch.said(), kind
        assert state(self.repository) == before, f"the repository changed: {kind}"
        assert not left_behind(launch), kind
        # who loses its Ray with the signal may be ended before it has closed
        if "KILL" in kind or "killed" in kind or "everything" in kind:
            self.next_gate(launch)
        assert not scratches(launch), kind
        return code

    def next_gate(self, launch: Launch) -> None:
        """It removes what a killed one left, and ends at once by what was typed."""
        again = subprocess.run(
            self.words(launch.folder, "", "HEAD", "step.py:step"),
            cwd=self.repository,
            env=os.environ | {"TMPDIR": str((launch.folder / "tmp").resolve())},
            capture_output=True,
            check=False,
        )
        assert again.returncode == 2, again.stderr


def scratches(launch: Launch) -> list[str]:
    """Folders of gates."""
    found = launch.folder.glob("tmp/cudnn-sweep-*/gates/*/")
    return [str(each) for each in found if each.is_dir()]


@pytest.fixture
def ground(tmp_path: Path, seed: int) -> Iterator[Field]:
    """A repository with many files, a branch of each odd name and of each HEAD that does not run."""
    folder = made(tmp_path / "repository", {"step.py": STEP})
    for name, line in IMPORTED.items():
        git(folder, "switch", "--quiet", "--create", f"fails-{name}", "main")
        commit(folder, {"step.py": f"{STEP}\n{line}\n"})
    many = b"blob\nmark :1\ndata 1\nx\ncommit refs/heads/many\ncommitter a <a@b> 0 +0000\n"
    many += b"data 0\nfrom refs/heads/main^0\n"
    many += b"".join(b"M 100644 :1 many/%d/%d\n" % (n % 100, n) for n in range(FILES))
    subprocess.run(["git", "fast-import", "--quiet"], cwd=folder, input=many, check=True)
    changed = git(folder, "commit-tree", "-p", "many", "-m", "a change", "many^{tree}")
    git(folder, "branch", "many-changed", changed)
    git(folder, "switch", "--quiet", "--create", "change", "main")
    commit(folder, {"other.py": "# a change\n"})
    for name in NAMES:
        git(folder, "update-ref", f"refs/heads/{name}", "change")
    git(folder, "gc", "--quiet")
    git(folder, "status")
    yield Field(folder=tmp_path, repository=folder, dice=random.Random(seed))
    for link in tmp_path.rglob("tmp"):
        if link.is_symlink():
            shutil.rmtree(link.resolve(), ignore_errors=True)


SIDES = ("main", "HEAD", "step.py:step")
MANY = ("many", "many-changed", "step.py:step")


def in_checkout(launch: Launch) -> bool:
    """Whether git writes some files by now."""
    return any(launch.folder.glob("tmp/cudnn-sweep-*/gates/*/*/tree/many/7*"))


def is_measuring(launch: Launch) -> bool:
    return launch.recorded() >= 1


def wait_until(launch: Launch, comes: Callable[[Launch], bool]) -> None:
    while launch.process.poll() is None and not comes(launch):
        time.sleep(0.01)


def hit(ground: Field, moment: str) -> None:
    """A signal to the shell's process, or to everything of it."""
    dice, before = ground.dice, state(ground.repository)
    number = dice.choice(list(SIGNALS))
    target = dice.choice(("everything", "shell's process"))
    with ground.begun(*(MANY if moment == "checkout" else SIDES)) as launch:
        if moment == "checkout":
            wait_until(launch, in_checkout)
            time.sleep(dice.uniform(0, 0.5))
        else:
            time.sleep(dice.uniform(0.3, 40.0))
        pids = {launch.process.pid}
        if target == "everything":
            pids |= launch.pids() - set(launch.role("janitor"))
        for pid in sorted(pids):
            kill(pid, number)
        kind = f"{number.name} to {target}, {moment}"
        ground.end(launch, kind, {SIGNALS[number], *UNDISTURBED}, before)


def lost(ground: Field, role: str) -> None:
    before = state(ground.repository)
    with ground.begun(*SIDES) as launch:
        wait_until(launch, is_measuring)
        found = processes.children(launch.process.pid) if role == "worker" else launch.role(role)
        for pid in found:
            kill(pid)
        ground.end(launch, f"{role} killed", {6}, before)


def bisected(ground: Field, role: str) -> None:
    """Two environments with the packages of this one. A signal at any moment, or a process of it is killed."""
    before, number = state(ground.repository), ground.dice.choice(list(SIGNALS))
    pythons = [environment(ground.folder / name) for name in ("older", "newer")]
    words = ("step.py:step", "--pythons", ",".join(map(str, pythons)))
    command = ground.words(ground.folder / f"{ground.number + 1}", *words, command="bisect")
    with ground.begun(command=command) as launch:
        if role:
            wait_until(launch, is_measuring)
            found = launch.role(role)
            kind, allowed = f"bisection, {role} killed", {6}
        else:
            time.sleep(ground.dice.uniform(0.3, 60.0))
            found, kind = [launch.process.pid], f"bisection, {number.name}"
            allowed = {SIGNALS[number], *UNDISTURBED}
        for pid in found:
            kill(pid, signal.SIGKILL if role else number)
        ground.end(launch, kind, allowed, before)


def environment(folder: Path) -> Path:
    """Make an environment with the packages of this one, and return its Python."""
    if not folder.exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        (packages,) = folder.glob("lib/python3*/site-packages")
        ours = sysconfig.get_paths()["purelib"]
        (packages / "ours.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    return folder / "bin/python"


def broken(ground: Field, how: str) -> None:
    before = state(ground.repository)
    with ground.begun("main", f"fails-{how}", "step.py:step") as launch:
        ground.end(launch, f"HEAD {how} at import", {4}, before)


def broken_base(ground: Field, how: str) -> None:
    before = state(ground.repository)
    sides = ("--exact", f"fails-{how}", "main", "step.py:step")
    with ground.begun(*sides) as launch:
        ground.end(launch, f"BASE {how} at import", {3}, before)
        assert f"step.py:step does not run at base:fails-{how}" in launch.said()


def full(ground: Field, what: str) -> None:
    before = state(ground.repository)
    (ground.folder / "full.md").unlink(missing_ok=True)
    (ground.folder / "full.md").symlink_to("/dev/full")
    words = ("--write", f"{ground.folder}/full.md", *SIDES) if what == "comment" else SIDES
    out = Path("/dev/full") if what == "output" else None
    with ground.begun(*words, out=out) as launch:
        allowed = {6} if what == "output" else {3, 6}  # an answer that is no fault, and no comment
        ground.end(launch, f"{what} on a full disk", allowed, before)
        assert out or "A step  " in launch.said(), "the answer is printed all the same"


def odd(ground: Field, _: str) -> None:
    before = state(ground.repository)
    name = ground.dice.choice(NAMES)
    head = f"refs/heads/{name}" if name == "@" else name
    with ground.begun("main", head, "step.py:step") as launch:
        ground.end(launch, "odd branch", UNDISTURBED, before)
    assert not list(ground.repository.glob("pwned"))


def mistyped(ground: Field, _: str) -> None:
    before = state(ground.repository)
    side = ground.dice.choice(MISTYPED)
    words = [side, "HEAD"] if ground.dice.random() < 0.5 else ["HEAD", side]
    with ground.begun("--", *words, "step.py:step") as launch:
        ground.end(launch, "mistyped", {2}, before)


def hooked(ground: Field, name: str) -> None:
    """From a hook of a clone's own; the commit has its files, and the index no others."""
    number, shared = ground.number, ground.repository
    clone = ground.folder / f"clone-{number}"
    git(ground.folder, "clone", "--quiet", "--shared", str(shared), str(clone))
    at = clone
    if name == "post-commit":
        at = ground.folder / f"linked-{number}"
        git(clone, "worktree", "add", "--quiet", "-b", "linked", str(at))
    # a push and a linked worktree's commit gate what was committed
    words = ground.words("$TMPDIR/..", "HEAD~1", "HEAD", "step.py:step")
    line = " ".join('"' + each + '"' if "$" in each else shlex.quote(each) for each in words)
    hook = clone / ".git/hooks" / name
    hook.write_text(f'#!/bin/sh\n{line}\necho "gate: $?" >&2\n')
    hook.chmod(0o755)
    (at / "step.py").write_text(f"{STEP}\n# once more\n")
    (at / "new.py").write_text("")
    git(at, "add", "new.py")
    commands = {
        "pre-commit": ["git", "commit", "--quiet", "--all", "--message", "more"],
        "post-commit": ["git", "commit", "--quiet", "--all", "--message", "more"],
        "pre-push": ["git", "push", "--quiet", str(ground.folder / f"to-{number}"), "HEAD"],
    }
    if name == "pre-push":
        git(ground.folder, "init", "--quiet", "--bare", f"to-{number}")
        git(at, "commit", "--quiet", "--all", "--message", "more")
    ground.repository = at
    try:
        with ground.begun(command=commands[name]) as launch:
            code = launch.process.wait(LONG_S)
            found = re.findall(r"^gate: (\d+)$", launch.said(), re.MULTILINE)
            ground.ends[f"{name} hook: git {code}, gate {found}"] += 1
            assert code == 0
            assert [int(each) in UNDISTURBED for each in found] == [True], found
            assert "Traceback" not in launch.said()
            assert not left_behind(launch)
            assert not scratches(launch)
        assert git(at, "show", "--name-only", "--format=", "HEAD") == "new.py\nstep.py"
        assert git(at, "status", "--porcelain") == ""
        assert len(git(at, "worktree", "list").splitlines()) == 1 + (at != clone)
    finally:
        ground.repository = shared


KINDS: list[tuple[Callable[[Field, str], None], str]] = [
    (hit, "checkout"),
    (hooked, "pre-commit"),
    (bisected, ""),
    (hit, "any moment"),
    *((broken, how) for how in IMPORTED),
    (hit, "checkout"),
    *((lost, role) for role in ("recorder", "worker")),
    (hit, "any moment"),
    (bisected, "recorder"),
    *((full, what) for what in ("comment", "output")),
    (hit, "checkout"),
    *((hooked, hook) for hook in ("post-commit", "pre-push")),
    (odd, ""),
    (mistyped, ""),
    (broken_base, "raise"),
]


@pytest.mark.long
def test_attacked_gates_leave_the_repository_as_it_was(ground: Field, attempts: Attempts) -> None:
    wanted, faults = attempts(2, 60), []
    for number in range(wanted):
        attack, what = KINDS[number % len(KINDS)]
        try:
            attack(ground, what)
        except (AssertionError, subprocess.TimeoutExpired) as fault:
            faults.append(f"{attack.__name__} {what}: {fault}")
            print(faults[-1], flush=True)
        print(f"{number + 1} of {wanted}: {dict(ground.ends)}", flush=True)
    assert not faults
