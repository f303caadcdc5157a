"""Sides that `sweep gate` and `sweep bisect` compare, such as commits and environments."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, chdir, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from cudnn_sweep.analysis.words import counted, one_line, printable
from cudnn_sweep.cluster.leftovers import held_folder
from cudnn_sweep.orchestrator.errors import SpecError, UnfinishedError
from cudnn_sweep.orchestrator.gating.repository import Tree, check_out, commit_of, git
from cudnn_sweep.orchestrator.locks.private_folder import our_temporary_folder, private_folder
from cudnn_sweep.orchestrator.planning.session import CodeLocation
from cudnn_sweep.orchestrator.process.protocol import MODULES

ALLOWED = "a commit of this repository, a folder, a wheel (.whl), or the Python of an environment"
PYTHON = "give a Python as the path of its program, such as venv/bin/python"
SHALLOW = "a shallow clone must first fetch its full history (fetch-depth: 0 on GitHub, GIT_DEPTH: 0 on GitLab, git fetch --unshallow)"
NO_ANCESTOR = f"{{base}} and {{head}} have no common ancestor: {SHALLOW}; --exact compares them"
OLDER = "BASE {base} contains HEAD {head}, so there is no change to measure; --exact compares them anyway"
UNCOMMITTED = "Uncommitted changes are not measured. To measure them, give the folder `.` as HEAD."
PYTHONS = "two or more environments with cudnn-sweep, such as a/bin/python,b/bin/python"


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    label: str
    """Name of the side in results, such as `base:main:0a1b2c3d4e5f`."""
    code: CodeLocation

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Change to this side's folder and set its SWEEP_MODULES during the `with` block."""
        with chdir(self.code.folder or "."):
            os.environ.update(self.code.variables)
            try:
                yield
            finally:
                os.environ.pop(MODULES, None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sides:
    base: Side
    head: Side
    trees: Mapping[str, Tree]
    """Checked-out files of sides that are commits, by `base` or `head`."""
    notes: list[str] = field(default_factory=list)
    """Sentences that tell how a measured side differs from what BASE or HEAD names."""

    def changed(self) -> list[str]:
        """Return the files that changed since the checkout, such as `base: bench/step.py`."""
        return [f"{name}: {file}" for name, tree in self.trees.items() for file in tree.changed()]


def scratch_for_gate() -> AbstractContextManager[Path]:
    """Return a context manager for this gate's folder. Remove the folders of killed gates."""
    return held_folder("", private_folder(our_temporary_folder() / "gates"))


def sides_of(base: str, head: str, scratch: Path, *, exact: bool) -> Sides:
    """Return the sides that BASE and HEAD name, with their files in `scratch`. The merge base of
    two commits replaces BASE unless `exact` is set. Raises SpecError if a text names no side, and
    UnfinishedError if git cannot check out a commit."""
    texts, notes = {"base": base, "head": head}, []
    commits = {name: _commit(name, text) for name, text in texts.items()}
    if commits["base"] and commits["head"] and not exact:
        notes += _take_merge_base(commits, texts)
    with suppress(SpecError):  # a bare repository has no files
        if commits["head"] and git("status", "--porcelain", "--untracked-files=no"):
            notes.append(UNCOMMITTED)
    trees: dict[str, Tree] = {}
    sides = {}
    for name, text in texts.items():
        if commit := commits[name]:
            try:
                trees[name] = check_out(commit, scratch)
            except SpecError as error:  # for example on a full disk
                typed = f"{name.upper()}: git cannot check out {printable(text)} ({commit[:12]})"
                raise UnfinishedError(f"{typed}: {error}") from None
            code = _in_folder(trees[name].folder, git("rev-parse", "--show-prefix"))
            sides[name] = Side(label=_label(name, text, commit), code=code)
        else:
            sides[name] = _at_path(name, text, scratch / name)
    notes += [f"{note} (at {name})" for name, tree in trees.items() for note in tree.notes()]
    return Sides(**sides, trees=trees, notes=notes)


def _commit(name: str, text: str) -> str | None:
    if not text.strip():
        raise SpecError(f"{name.upper()}: is empty, allowed: {ALLOWED}")
    if text.startswith(("./", "../", "/", "~")) or text in (".", ".."):
        return None
    commit = commit_of(text)
    if commit and (Path(text).is_dir() or _is_wheel(Path(text)) or _is_program(Path(text))):
        names = f"type ./{text} for the path, or {commit} for the commit"
        raise SpecError(f"{name.upper()}: {text} is both a commit and a path; {names}")
    return commit


def _take_merge_base(commits: dict[str, str | None], texts: Mapping[str, str]) -> list[str]:
    """Replace BASE by its merge base with HEAD. Return a note if this changes BASE."""
    base, head = commits["base"] or "", commits["head"] or ""
    try:
        commits["base"] = ancestor = git("merge-base", base, head)
    except SpecError:
        raise SpecError(NO_ANCESTOR.format(**texts)) from None
    if ancestor == head != base:
        raise SpecError(OLDER.format(**texts))
    if ancestor == base:
        return []
    before = counted(int(git("rev-list", "--count", f"{ancestor}..{base}")), "commit")
    of_two = f"the merge base of {texts['base']} and {texts['head']}"
    return [printable(f"BASE is {ancestor[:12]}, {of_two}, {before} before {texts['base']}.")]


def _label(name: str, text: str, commit: str) -> str:
    if text in ("HEAD", "@"):
        with suppress(SpecError):
            text = git("symbolic-ref", "--quiet", "--short", "HEAD")
    typed = "" if commit.startswith(text.lower()) else f"{_in_results(text)}:"
    return f"{name}:{typed}{commit[:12]}"


def _in_results(text: str) -> str:
    """Remove the space after each comma, because results use ", " between settings."""
    return one_line(text).replace(", ", ",")


def _at_path(name: str, text: str, scratch: Path) -> Side:
    path, label = Path(text).expanduser(), f"{name}:{_in_results(text)}"
    if path.is_dir():
        return Side(label=label, code=_in_folder(path.resolve()))
    if _is_wheel(path):
        _install(path, scratch)
        here = CodeLocation(folder=Path.cwd(), variables=_looked_for_in([scratch]))
        return Side(label=f"{name}:{_in_results(path.stem)}", code=here)
    if _is_program(path):
        return _environment(label, path)
    reason = f"; {PYTHON}" if path.is_file() else _why_no_commit()
    raise SpecError(f"{name.upper()}: found {text!r}, allowed: {ALLOWED}{reason}")


def _why_no_commit() -> str:
    """Return a possible reason why git found no commit, or "" if none is known."""
    try:
        is_shallow = git("rev-parse", "--is-shallow-repository") == "true"
    except SpecError as error:
        return f"; git: {error}"
    return f"; {SHALLOW}" if is_shallow else ""


def environments_of(pythons: str) -> list[Side]:
    """Return a side for each environment in `pythons`. Raises SpecError if one is invalid."""
    sides = []
    for text in dict.fromkeys(text.strip() for text in pythons.split(",")):
        path = Path(text).expanduser()
        program = path / "bin/python" if path.is_dir() else path
        if not _is_program(program):
            raise SpecError(f"--pythons: found {text!r}, allowed: {PYTHONS}; {PYTHON}")
        sides.append(_environment(text, program))
    if len(sides) < 2:
        raise SpecError(f"--pythons: found only {sides[0].label!r}, allowed: {PYTHONS}")
    return sides


def _environment(label: str, path: Path) -> Side:
    return Side(label=label, code=CodeLocation(folder=Path.cwd(), python=path.absolute()))


def _is_program(path: Path) -> bool:
    is_named_so = path.parent.name == "bin" and path.name.startswith("python")
    return is_named_so and path.is_file() and os.access(path, os.X_OK)


def _is_wheel(path: Path) -> bool:
    return path.suffix == ".whl" and path.is_file()


def _in_folder(root: Path, below: str = "") -> CodeLocation:
    """Return the location of code in `root / below`, or in `root` if there is no such folder."""
    folder = root / below if (root / below).is_dir() else root
    return CodeLocation(folder=folder, variables=_looked_for_in([folder, root, root / "src"]))


def _looked_for_in(places: list[Path]) -> dict[str, str]:
    """Return the environment variable that makes Python search `places` first for modules."""
    folders = dict.fromkeys(str(place.resolve()) for place in places if place.is_dir())
    return {MODULES: os.pathsep.join(folders)}


def _install(wheel: Path, folder: Path) -> None:
    options = ["--quiet", "--no-deps", "--target", str(folder)]
    command = [sys.executable, "-P", "-m", "pip", "install", *options, str(wheel)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SpecError(f"{wheel} cannot be installed: {done.stderr.strip()[-300:]}")
