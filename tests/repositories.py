"""Git repositories that tests make, and what may not change in one."""

import os
import subprocess
from pathlib import Path
from typing import TypeAlias

# The user's own configuration, and git's variables if a hook runs the tests, change no test.
ALONE = {
    **{f"GIT_{role}_NAME": "a" for role in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{role}_EMAIL": "a@b" for role in ("AUTHOR", "COMMITTER")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}
State: TypeAlias = "tuple[dict[str, tuple[bytes, int]], bytes]"


def git(folder: Path, *words: str | bytes, **variables: str) -> str:
    """What it prints, without the last line's end."""
    done = subprocess.run(
        ["git", *words],
        cwd=folder,
        env={**os.environ, **ALONE, **variables},
        check=False,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return os.fsdecode(done.stdout).removesuffix("\n")


def made(folder: Path, *commits: dict[str, str]) -> Path:
    """A repository on main, with a commit each of these files."""
    git(folder.parent, "init", "--quiet", "--initial-branch=main", str(folder))
    for files in commits:
        commit(folder, files)
    return folder


def commit(folder: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--no-verify", "--message", "a change")
    return git(folder, "rev-parse", "HEAD")


def state(folder: Path) -> State:
    """Each file below .git, its bytes and when it was written, and what git says of the working tree."""
    common = folder / git(folder, "rev-parse", "--git-common-dir")
    files = {
        # git itself renews the date of a shared index whenever it reads one
        str(file): (file.read_bytes(), 0 if "sharedindex" in file.name else file.stat().st_mtime_ns)
        for file in sorted(common.rglob("*"))
        if file.is_file()
    }
    status = git(folder, "status", "--porcelain", "-z", GIT_OPTIONAL_LOCKS="0")
    return files | {str(each): (b"", 0) for each in common.rglob("*") if each.is_dir()}, (
        os.fsencode(status)
    )
