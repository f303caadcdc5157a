"""The two sides of `sweep gate`: a commit of the user's repository, a folder, a wheel or a Python."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.session import Code
from cudnn_sweep.orchestrator.process.protocol import MODULES

ALLOWED = "a commit of this repository, a folder, a wheel (.whl), or the Python of an environment"
PYTHONS = "two or more environments with cudnn-sweep, such as a/bin/python,b/bin/python"
SOURCES = ("", "src")  # below a repository's root, where its modules may be


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    label: str
    """As results name it: `base:0a1b2c3d4e5f`."""
    code: Code

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Processes that start meanwhile find its modules, and files from its folder."""
        folder = Path.cwd()
        try:
            os.chdir(self.code.folder or folder)
            os.environ.update(self.code.variables)
            yield
        finally:
            os.chdir(folder)
            os.environ.pop(MODULES, None)


@contextmanager
def sides_of(base: str, head: str, scratch: Path) -> Iterator[tuple[Side, Side]]:
    """`scratch`: a new folder, for worktrees and unpacked wheels. Raises SpecError for what is no side."""
    trees: list[Path] = []
    try:
        yield (
            _side("base", base, scratch / "base", trees),
            _side("head", head, scratch / "head", trees),
        )
    finally:
        for tree in trees:
            _git("worktree", "remove", "--force", str(tree))


def _side(name: str, text: str, scratch: Path, trees: list[Path]) -> Side:
    """`trees`: where worktrees are added that are to be removed."""
    path = Path(text).expanduser()
    if path.is_dir():
        return Side(label=f"{name}:{text}", code=_in_folder(path.resolve(), Path(".")))
    if path.suffix == ".whl" and path.is_file():
        _install(path, scratch)
        here = Code(folder=Path.cwd(), variables=_looked_for_in([scratch]))
        return Side(label=f"{name}:{path.stem}", code=here)
    if _is_program(path):
        return _environment(f"{name}:{text}", path)
    commit = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{text}^{{commit}}")
    if commit is None:
        raise SpecError(f"{name.upper()}: found {text!r}, allowed: {ALLOWED}")
    if _git("worktree", "add", "--detach", str(scratch), commit) is None:
        raise SpecError(f"{name.upper()}: git cannot check out {text} ({commit[:12]}) in {scratch}")
    trees.append(scratch)
    below = Path(_git("rev-parse", "--show-prefix") or ".")
    code = _in_folder(scratch, below)
    if not (scratch / below).is_dir():  # at that commit the folder was not there
        code = replace(code, folder=scratch)
    return Side(label=f"{name}:{commit[:12]}", code=code)


def environments_of(pythons: str) -> list[Side]:
    """Of `--pythons`; a folder stands for its bin/python. Raises SpecError."""
    texts = list(dict.fromkeys(text.strip() for text in pythons.split(",")))
    paths = [Path(text).expanduser() for text in texts]
    programs = [path / "bin/python" if path.is_dir() else path for path in paths]
    for text, program in zip(texts, programs, strict=True):
        if not _is_program(program):
            raise SpecError(f"--pythons: found {text!r}, allowed: {PYTHONS}")
    if len(texts) < 2:
        raise SpecError(f"--pythons: found one, {texts[0]!r}, allowed: {PYTHONS}")
    return [_environment(text, program) for text, program in zip(texts, programs, strict=True)]


def _environment(label: str, path: Path) -> Side:
    return Side(label=label, code=Code(folder=Path.cwd(), python=path.absolute()))


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _in_folder(root: Path, below: Path) -> Code:
    places = [root / below, *(root / source for source in SOURCES)]
    return Code(folder=root / below, variables=_looked_for_in(places))


def _looked_for_in(places: list[Path]) -> dict[str, str]:
    """Before what is installed: an editable install of the same package must not stand in for it."""
    kept = dict.fromkeys(str(each.resolve()) for each in places if each.is_dir())
    return {MODULES: os.pathsep.join(kept)}


def _install(wheel: Path, folder: Path) -> None:
    options = ["--quiet", "--no-deps", "--target", str(folder)]
    command = [sys.executable, "-m", "pip", "install", *options, str(wheel)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SpecError(f"{wheel} cannot be installed: {done.stderr.strip()[-300:]}")


def _git(*words: str) -> str | None:
    """What git prints; None where it refuses, or is not there."""
    try:
        done = subprocess.run(["git", *words], check=False, capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def uncommitted(text: str) -> bool:
    """Whether the working tree has changes that this side, a commit, leaves out."""
    return not Path(text).exists() and bool(_git("status", "--porcelain", "--untracked-files=no"))
