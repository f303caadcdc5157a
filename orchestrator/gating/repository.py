"""Checks out commits without changing the user's git repository."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cudnn_sweep.analysis.words import printable, some
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.process.linux import die_with_parent

# Settings that keep git from running hooks, writing other files or missing changes.
SETTINGS = (
    *("core.hooksPath=/dev/null", "core.splitIndex=false", "core.fsmonitor=false"),
    *("core.untrackedCache=false", "core.ignoreStat=false", "submodule.recurse=false"),
)
VARIABLES = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
# `git rev-parse --local-env-vars` does not list these variables.
PATHSPECS = frozenset(f"GIT_{kind}_PATHSPECS" for kind in ("LITERAL", "GLOB", "NOGLOB", "ICASE"))
CODE = ("*.py", "*.pth", "*.so")  # new files of these kinds can replace modules
SUBMODULE = "160000 "  # prefix of a submodule in `git ls-files --stage`
POINTER = b"version https://git-lfs"
END_S = 5.0  # time for git to remove its temporary files
SHOWN = 500  # maximum length of git's message
NAMED = 3  # files that a note lists


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    """Files of a commit, in a folder outside of the repository."""

    folder: Path
    index: Path
    repository: str  # path of the .git folder

    def git(self, *words: str) -> str:
        where = (f"--git-dir={self.repository}", f"--work-tree={self.folder}")
        options = ("-c", "core.sparseCheckout=false", *where)
        return git(*options, *words, folder=self.folder, index=self.index)

    def notes(self) -> list[str]:
        staged = self.git("ls-files", "--stage", "-z").split("\0")
        modules = [line.partition("\t")[2] for line in staged if line.startswith(SUBMODULE)]
        large = self.git("ls-files", "-z", "--", ":(attr:filter=lfs)").split("\0")
        pointers = [name for name in large if name and _is_pointer(self.folder / name)]
        lacking = {"Submodules are not checked out": modules, "Missing Git LFS files": pointers}
        return [f"{text}: {printable(some(n, NAMED))}" for text, n in lacking.items() if n]

    def changed(self) -> list[str]:
        """Return files that changed since the checkout, and new files that can replace modules."""
        try:
            names = self.git("diff", "--name-only", "-z").split("\0")
            names += self.git("ls-files", "--others", "-z", "--", *CODE).split("\0")
        except SpecError as error:  # the tree's folder or index is damaged
            names = [f"all ({error})"]
        return [printable(name) for name in names if name]


def check_out(commit: str, scratch: Path) -> Tree:
    """Check out the commit in a new folder in `scratch`. Raises SpecError if git fails."""
    folder = Path(tempfile.mkdtemp(dir=scratch))  # a random name that other code cannot guess
    repository = git("rev-parse", "--absolute-git-dir")
    tree = Tree(folder=folder / "tree", index=folder / "index", repository=repository)
    tree.folder.mkdir()
    tree.git("read-tree", "-u", "--reset", commit)
    return tree


def commit_of(text: str) -> str | None:
    """Return the full hash of the commit that `text` names, or None."""
    with suppress(SpecError):
        name = git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{text}^{{commit}}")
        return name if name.isalnum() else None  # the result for `^main` is no commit
    return None


def git(*words: str, folder: Path | None = None, index: Path | None = None) -> str:
    """Run git without the variables that it exports to hooks, so that it cannot write to the user's
    index. Return its output. Raises SpecError with git's message if git fails."""
    variables = {name: text for name, text in os.environ.items() if name not in _of_hooks()}
    variables |= VARIABLES | ({"GIT_INDEX_FILE": str(index)} if index else {})
    settings = (word for setting in SETTINGS for word in ("-c", setting))
    code, output, reason = _run(["git", *settings, *words], variables, folder)
    if code:
        shown = printable(" ".join(reason.split()))[:SHOWN]
        raise SpecError(shown or f"git {words[0]}: exit code {code}")
    return output.removesuffix("\n")


@cache
def _of_hooks() -> frozenset[str]:
    """Return the names of variables that git exports to hooks, except GIT_CONFIG_*."""
    _, output, _ = _run(["git", "rev-parse", "--local-env-vars"], os.environ)
    local = {name for name in output.split() if not name.startswith("GIT_CONFIG_")}
    return PATHSPECS.union(local)


def _run(
    command: list[str], variables: Mapping[str, str], folder: Path | None = None
) -> tuple[int, str, str]:
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509
        )
    except OSError as error:
        raise SpecError(f"git cannot be run: {error.strerror}") from error
    with process:
        try:
            output, reason = process.communicate()
        except BaseException:
            _end(process)
            raise
    return process.returncode, os.fsdecode(output), os.fsdecode(reason)


def _end(process: "subprocess.Popen[bytes]") -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_S)


def _is_pointer(file: Path) -> bool:
    with suppress(OSError), file.open("rb") as stream:
        return stream.read(len(POINTER)) == POINTER
    return False
