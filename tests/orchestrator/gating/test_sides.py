"""BASE and HEAD: what each may be, and that the repository is not written to, whatever calls a gate."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from cudnn_sweep.orchestrator.errors import SpecError, UnfinishedError
from cudnn_sweep.orchestrator.gating.repository import git as git_of_gate
from cudnn_sweep.orchestrator.gating.sides import Sides, scratch_for_gate, sides_of
from tests import processes, repositories
from tests.repositories import commit, git, made, state

ODD = "ünï;$(touch${IFS}pwned)'\""
STEP = "bench/step.py"
# As a hook runs it: the trees' files are printed, or why there is none.
PROGRAM = """
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from cudnn_sweep.orchestrator.gating.sides import sides_of
with TemporaryDirectory() as scratch:
    sides = sides_of(*sys.argv[1:3], Path(scratch), exact=True)
    print(*(Path(side.code.folder, "text").read_text() for side in (sides.base, sides.head)))
"""


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in repositories.ALONE.items():
        monkeypatch.setenv(name, value)
    for name in git(tmp_path, "rev-parse", "--local-env-vars").split():
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository that is copied for each test: three commits, of which the last two change a file, and `old`."""
    folder = made(
        tmp_path_factory.mktemp("original") / "r", {"text": "1"}, {"text": "2"}, {"text": "3"}
    )
    git(folder, "branch", "old", "HEAD~1")
    return folder


@pytest.fixture
def repository(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = shutil.copytree(original, tmp_path / "r")
    git(folder, "status")  # git looks each copied file up once more
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


@contextmanager
def unchanged(folder: Path) -> Iterator[None]:
    before = state(folder)
    yield
    assert state(folder) == before


def taken(scratch: Path, base: str = "HEAD~1", head: str = "HEAD", *, exact: bool = False) -> Sides:
    """The sides, of a repository in the current folder that they do not change."""
    with unchanged(Path.cwd()):
        return sides_of(base, head, scratch, exact=exact)


def read(sides: Sides, name: str = "text") -> tuple[str, str]:
    one, other = (tree.folder / name for tree in (sides.trees["base"], sides.trees["head"]))
    return one.read_text(), other.read_text()


# --- The repository is not written to -------------------------------------------------------------------------


def test_each_side_has_the_files_of_its_commit(repository: Path, scratch: Path) -> None:
    sides = taken(scratch)
    assert read(sides) == ("2", "3")
    assert sides.changed() == []
    assert sides.notes == []


def test_changes_that_are_not_committed_are_left_out_and_named(
    repository: Path, scratch: Path
) -> None:
    (repository / "text").write_text("4")
    (repository / "staged").write_text("5")
    git(repository, "add", "staged")
    sides = taken(scratch)
    assert read(sides) == ("2", "3")
    assert not (sides.trees["head"].folder / "staged").exists()
    assert [note.split(".")[0] for note in sides.notes] == ["Uncommitted changes are not measured"]
    assert taken(scratch, "HEAD~1", ".").notes == []


def test_clone_and_linked_worktree_are_read(
    repository: Path, tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(repository, "worktree", "add", "--quiet", "--detach", "../linked", "old")
    git(tmp_path, "clone", "--quiet", "r", "clone")
    for folder, texts in (("linked", ("1", "2")), ("clone", ("2", "3"))):
        monkeypatch.chdir(tmp_path / folder)
        assert read(taken(scratch)) == texts


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"core.splitIndex": "true", "splitIndex.maxPercentChange": "0"},
        {"core.untrackedCache": "true"},
        {"core.fsmonitor": "{hook}"},
        {"core.ignoreStat": "true"},
        {"core.checkStat": "minimal", "core.trustctime": "false"},
        {"core.bare": "false", "index.version": "4", "feature.manyFiles": "true"},
        {"checkout.workers": "2", "checkout.thresholdForParallelism": "1"},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_setting_of_the_repository_makes_nobody_write_to_it(
    settings: dict[str, str], repository: Path, tmp_path: Path, scratch: Path
) -> None:
    hook = _script(tmp_path / "hook", f"touch {tmp_path}/ran")
    for name, value in settings.items():
        git(repository, "config", name, value.format(hook=hook))
    commit(repository, {"text": "4"})
    (tmp_path / "ran").unlink(missing_ok=True)
    before = state(repository)
    (tmp_path / "ran").unlink(missing_ok=True)
    sides = sides_of("HEAD~1", "HEAD", scratch, exact=False)
    assert not (tmp_path / "ran").exists(), "a program of the user's ran"
    assert state(repository) == before
    assert read(sides) == ("3", "4")
    file = sides.trees["base"].folder / "text"
    then = file.stat()
    file.write_text("5")
    os.utime(file, ns=(then.st_atime_ns, then.st_mtime_ns))
    assert sides.changed() == ["base: text"]


def test_sparse_checkout_leaves_nothing_out(repository: Path, scratch: Path) -> None:
    commit(repository, {"a/1": "", "b/2": ""})
    git(repository, "sparse-checkout", "set", "--cone", "--sparse-index", "a")
    assert not (repository / "b").exists()
    sides = taken(scratch)
    assert (sides.trees["head"].folder / "b/2").exists()
    assert sides.changed() == []


def test_files_are_checked_out_as_git_does(repository: Path, scratch: Path) -> None:
    """Line ends, filters, links, executable files; what an archive would leave out is there."""
    git(repository, "config", "core.autocrlf", "true")
    git(repository, "config", "filter.upper.smudge", "tr a-z A-Z")
    git(repository, "config", "filter.upper.clean", "tr A-Z a-z")
    attributes = "lines text\nsmudged filter=upper\nkept export-ignore\nid ident\n"
    (repository / "link").symlink_to("text")
    (repository / "run").write_text("")
    (repository / "run").chmod(0o755)
    files = {"lines": "1\n2\n", "smudged": "abc", "kept": "1", "id": "$Id$"}
    commit(repository, {".gitattributes": attributes, **files})
    commit(repository, {".gitattributes": attributes.replace("upper", "none")})
    sides = taken(scratch)
    base, head = (sides.trees[name].folder for name in ("base", "head"))
    assert (base / "lines").read_bytes() == b"1\r\n2\r\n"
    assert (base / "smudged").read_text() == "ABC"
    assert (head / "smudged").read_text() == "abc", "each commit's own attributes"
    assert (base / "kept").exists()
    assert (base / "id").read_text().startswith("$Id: ")
    assert os.readlink(base / "link") == "text"
    assert os.access(base / "run", os.X_OK)
    assert sides.changed() == []


def test_names_may_hold_any_byte(repository: Path, scratch: Path) -> None:
    names = [b"a b.py", b"line\nend.py", b"return\r.py", b"\xff\xfe.py", b'"quoted".py', b"-x.py"]
    for name in names:
        Path(os.fsdecode(name)).touch()
    commit(repository, {})
    sides = taken(scratch, "HEAD", "HEAD")
    tree = sides.trees["head"].folder
    assert set(os.listdir(os.fsencode(tree))) == {b"text", *names}
    assert sides.changed() == []
    for name in names:
        (tree / os.fsdecode(name)).unlink()
    assert len(sides.changed()) == len(names)
    assert all(each.replace("\n", "").isprintable() for each in sides.changed())


@pytest.mark.parametrize("place", ["a b", "line\nend", "return\rx", os.fsdecode(b"\xff")])
def test_repository_may_lie_anywhere(
    place: str, tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made(tmp_path / place, {f"{place}/text": "1"}, {f"{place}/text": "2"})
    monkeypatch.chdir(folder / place)
    sides = taken(scratch)
    assert sides.head.code.folder == sides.trees["head"].folder / place
    assert (sides.trees["base"].folder / place / "text").read_text() == "1"
    label = sides_of(str(folder), str(folder), scratch, exact=False).head.label
    assert label.replace("\n", "").isprintable()


VARIABLES: list[dict[str, str]] = [
    {"GIT_INDEX_FILE": "{git}/index"},
    {"GIT_INDEX_FILE": ".git/index"},
    {"GIT_DIR": "{git}"},
    {"GIT_DIR": ".git", "GIT_WORK_TREE": "."},
    {"GIT_DIR": "{git}", "GIT_WORK_TREE": "{work}", "GIT_INDEX_FILE": "{git}/index"},
    {"GIT_DIR": "/nowhere"},
    {"GIT_PREFIX": "bench/", "GIT_QUARANTINE_PATH": "x", "GIT_INDEX_VERSION": "4"},
    {"GIT_LITERAL_PATHSPECS": "1"},
    {"GIT_NOGLOB_PATHSPECS": "1"},
    {"GIT_CONFIG_PARAMETERS": "'core.splitIndex'='true' 'core.bare'='true'"},
]


@pytest.mark.slow
@pytest.mark.parametrize("variables", VARIABLES, ids=lambda each: ",".join(each))
def test_variables_that_git_exports_to_hooks_are_not_passed_on(
    variables: dict[str, str], repository: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(repository, {"staged": ""})
    (repository / "new").write_text("")
    git(repository, "add", "new")
    before = state(repository)
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(git=repository / ".git", work=repository))
    sides = sides_of("HEAD~1", "HEAD", scratch, exact=False)
    (sides.trees["head"].folder / "torch.py").write_text("")
    changed = sides.changed()
    monkeypatch.undo()
    assert state(repository) == before
    assert changed == ["head: torch.py"]


def test_settings_in_variables_hold(
    repository: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as safe.directory, which containers set so."""
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "alias.mine")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "rev-parse HEAD")
    assert git_of_gate("mine") == git(repository, "rev-parse", "HEAD")
    assert read(taken(scratch)) == ("2", "3")


# --- Hooks ----------------------------------------------------------------------------------------------------


LESS = [pytest.param(words, marks=pytest.mark.long) for words in (("--all",), ("text",), ())]


@pytest.mark.slow
@pytest.mark.parametrize("words", [*LESS, ("--only", "text")], ids=str)
def test_commit_whose_hook_gates_it_has_its_files(words: tuple[str, ...], repository: Path) -> None:
    hook = _hook(repository, "pre-commit", "HEAD~1", "HEAD")
    (repository / "text").write_text("4")
    (repository / "new").write_text("new")
    git(repository, "add", "new", *(() if words else ("text",)))
    git(repository, "commit", "--quiet", "--message", "four", *words)
    assert hook.read_text() == "2 3\n"
    assert git(repository, "show", "HEAD:text") == "4"
    is_whole = words in ((), ("--all",))
    assert git(repository, "status", "--porcelain") == ("" if is_whole else "A  new")


@pytest.mark.slow
def test_hooks_of_a_linked_worktree_and_of_a_push(repository: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--bare", "to")
    git(repository, "worktree", "add", "--quiet", "-b", "linked", "../linked", "old")
    linked = tmp_path / "linked"
    after = _hook(repository, "post-commit", "HEAD~1", "HEAD")
    push = _hook(repository, "pre-push", "HEAD~1", "HEAD")
    checkout = _hook(repository, "post-checkout", "HEAD", "HEAD")
    (linked / "new.py").write_text("new")
    git(linked, "add", "new.py")
    git(linked, "commit", "--quiet", "--message", "four")
    assert after.read_text() == "2 2\n"
    assert git(linked, "status", "--porcelain") == ""
    assert git(linked, "show", "HEAD:new.py") == "new"
    git(linked, "push", "--quiet", str(tmp_path / "to"), "linked")
    assert push.read_text() == "2 2\n"
    assert git(tmp_path / "to", "rev-parse", "linked") == git(linked, "rev-parse", "HEAD")
    assert not checkout.exists(), "a checkout into our folder is none of the user's"


def test_post_checkout_hook_does_not_run(repository: Path, scratch: Path, tmp_path: Path) -> None:
    for hook in ("post-checkout", "post-index-change", "reference-transaction"):
        _script(repository / f".git/hooks/{hook}", f"touch {tmp_path}/ran")
    git(repository, "config", "core.hooksPath", str(repository / ".git/hooks"))
    taken(scratch)
    assert not (tmp_path / "ran").exists()


def test_bare_repository_of_a_server_has_commits(
    repository: Path, tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "clone", "--quiet", "--bare", "r", "bare")
    monkeypatch.chdir(tmp_path / "bare")
    assert read(sides_of("main~1", "main", scratch, exact=False)) == ("2", "3")


# --- What the trees lack, and what is left ----------------------------------------------------------------------


def test_submodules_and_pointers_of_lfs_are_named(
    repository: Path, tmp_path: Path, scratch: Path
) -> None:
    inner = made(tmp_path / "inner", {"a": ""})
    git(repository, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "sub")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    commit(repository, {".gitattributes": "*.bin filter=lfs\n", "a b.bin": pointer, "ok.bin": "x"})
    expected = ["Submodules are not checked out: sub (at head)", "Missing Git LFS files: a b.bin"]
    assert taken(scratch).notes == [expected[0], f"{expected[1]} (at head)"]
    assert taken(scratch).changed() == []


def test_files_that_differ_from_their_commit_are_named(repository: Path, scratch: Path) -> None:
    commit(repository, {"a.py": "1", "b.py": "1", "c.py": "1", ".gitignore": "ignored.py\n"})
    sides = taken(scratch)
    base, head = (sides.trees[name].folder for name in ("base", "head"))
    (base / "text").write_text("changed")
    (head / "a.py").unlink()
    (head / "b.py").chmod(0o755)
    os.utime(head / "c.py", (0, 0))  # written again, with the same bytes
    (head / "ignored.py").touch()
    (head / "__pycache__").mkdir()
    (head / "__pycache__/a.cpython.pyc").touch()
    assert sides.changed() == [
        "base: text",
        "head: a.py",
        "head: b.py",
        "head: ignored.py",
    ]


@pytest.mark.parametrize("lost", ["tree", "index", "files"])
def test_tree_that_its_code_removed_is_changed(lost: str, repository: Path, scratch: Path) -> None:
    sides = taken(scratch)
    tree = sides.trees["head"]
    if lost == "index":
        tree.index.write_text("no index")
    else:
        shutil.rmtree(tree.folder)
    if lost == "files":
        tree.folder.mkdir()
    (found,) = sides.changed()
    assert found.startswith("head: ")


def test_partial_clone_fetches_what_it_lacks(
    repository: Path, tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(repository, "config", "uploadpack.allowFilter", "true")
    git(repository, "config", "uploadpack.allowAnySHA1InWant", "true")
    origin = f"file://{repository}"
    git(tmp_path, "clone", "--quiet", "--filter=blob:none", origin, "partial")
    monkeypatch.chdir(tmp_path / "partial")
    refs = git(Path.cwd(), "show-ref", "--head")
    assert read(sides_of("HEAD~1", "HEAD", scratch, exact=False)) == ("2", "3")
    assert git(Path.cwd(), "show-ref", "--head") == refs
    assert git(Path.cwd(), "status", "--porcelain") == ""


def test_interrupted_checkout_ends_git_and_its_filter(repository: Path, tmp_path: Path) -> None:
    slow = _script(tmp_path / "slow", f"echo $$ >> {tmp_path}/pids; trap '' TERM; sleep 30; cat")
    git(repository, "config", "filter.slow.smudge", str(slow))
    commit(repository, {".gitattributes": "text filter=slow\n"})
    before = state(repository)

    def interrupt() -> None:
        while not (tmp_path / "pids").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    killer = threading.Thread(target=interrupt)
    killer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), scratch_for_gate() as scratch:
        sides_of("HEAD~1", "HEAD", scratch, exact=False)
    killer.join()
    signal.signal(signal.SIGINT, usual)
    assert time.monotonic() - began < 15
    assert not scratch.exists()
    left = [pid for pid in processes.every() if str(scratch).encode() in _of(pid)]
    pids = (tmp_path / "pids").read_text().split()
    assert not left + [pid for pid in pids if processes.read(int(pid), "cmdline")]
    assert state(repository) == before


def _of(pid: int) -> bytes:
    return processes.read(pid, "cmdline") + processes.read(pid, "environ")


def test_git_of_a_killed_gate_ends(repository: Path, tmp_path: Path) -> None:
    slow = _script(tmp_path / "slow", f"echo $PPID >> {tmp_path}/pids; sleep 5; cat")
    git(repository, "config", "filter.slow.smudge", str(slow))
    commit(repository, {".gitattributes": "text filter=slow\n"})
    gate = subprocess.Popen([sys.executable, "-c", PROGRAM, "HEAD~1", "HEAD"])
    while not (tmp_path / "pids").exists():
        assert gate.poll() is None
        time.sleep(0.01)
    gate.kill()
    gate.wait()
    ends = time.monotonic() + 2
    parents = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    while alive := [pid for pid in parents if processes.read(pid, "cmdline")]:
        assert time.monotonic() < ends, [processes.command(pid) for pid in alive]
        time.sleep(0.02)


def test_next_gate_removes_what_killed_ones_left(tmp_path: Path) -> None:
    with scratch_for_gate() as killed:
        gates = killed.parent
    killed.mkdir()
    (killed / "tree").mkdir()
    with scratch_for_gate() as held:
        assert [each.name for each in gates.iterdir() if each.is_dir()] == [held.name]
        with scratch_for_gate() as other:
            assert held.exists() and other != held
    assert [each.name for each in gates.iterdir() if each.is_dir()] == []


def test_second_signal_leaves_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    usual, calls = shutil.rmtree, []

    def interrupted(folder: Path, *, ignore_errors: bool) -> None:
        calls.append(folder)
        if len(calls) == 1:
            raise KeyboardInterrupt
        usual(folder, ignore_errors=ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt), scratch_for_gate() as scratch:
        raise KeyboardInterrupt
    assert not scratch.exists()


# --- BASE and HEAD mean what was typed ----------------------------------------------------------------------------


def refused(scratch: Path, base: str, head: str, *, exact: bool = False) -> str:
    with unchanged(Path.cwd()), pytest.raises((SpecError, UnfinishedError)) as raised:
        sides_of(base, head, scratch, exact=exact)
    return str(raised.value)


@pytest.mark.parametrize("text", ["", " ", "\t"])
def test_empty_side_is_refused(text: str, repository: Path, scratch: Path) -> None:
    assert refused(scratch, text, "HEAD").startswith("BASE: is empty, allowed: a commit of ")
    assert refused(scratch, "HEAD", text).startswith("HEAD: is empty, allowed: a commit of ")


@pytest.mark.parametrize(
    "text",
    ["^HEAD", "HEAD^!", "HEAD~2..HEAD", "-x", "--help", "HEAD:text", "HEAD^{tree}", "nothing"]
    + ["x" * 200, "a\nb", "$(touch pwned)", "text", "HEAD^{/no such}"],
    ids=lambda text: text[:12],
)
def test_what_is_no_side_is_refused(text: str, repository: Path, scratch: Path) -> None:
    assert refused(scratch, text, "HEAD").startswith("BASE: found ")
    assert refused(scratch, "HEAD", text, exact=True).startswith("HEAD: found ")
    assert not (repository / "pwned").exists()


def test_both_a_commit_and_a_path_is_refused_with_how_to_write_each(
    repository: Path, scratch: Path
) -> None:
    hash_ = git(repository, "rev-parse", "old")
    git(repository, "update-ref", "refs/remotes/origin/main", "old")
    (repository / "origin/main").mkdir(parents=True)
    message = (
        f"both a commit and a path; type ./origin/main for the path, or {hash_} for the commit"
    )
    assert message in refused(scratch, "origin/main", "HEAD")
    sides = taken(scratch, "./origin/main", hash_)
    assert sides.base.label == "base:./origin/main"
    assert sides.head.label == f"head:{hash_[:12]}"


def test_executable_file_with_the_name_of_a_branch_is_not_run(
    repository: Path, scratch: Path, tmp_path: Path
) -> None:
    _script(repository / "old", f"touch {tmp_path}/ran")
    _script(repository / "deploy", f"touch {tmp_path}/ran")
    sides = taken(scratch, "old", "HEAD", exact=True)
    assert sides.base.code.python is None
    assert sides.base.label.startswith("base:old:")
    assert "give a Python as the path of its program" in refused(scratch, "deploy", "HEAD")
    assert "give a Python as the path of its program" in refused(scratch, "./old", "HEAD")
    assert not (tmp_path / "ran").exists()


def test_python_is_its_path(repository: Path, scratch: Path, tmp_path: Path) -> None:
    python = tmp_path / "venv/bin/python3.11"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    assert taken(scratch, str(python), "HEAD").base.code.python == python, "a link stays one"
    for text in ("bin/python", "../venv/bin/pip"):
        assert refused(scratch, text, "HEAD").startswith("BASE: found ")


def test_base_of_two_commits_is_their_merge_base(repository: Path, scratch: Path) -> None:
    git(repository, "switch", "--quiet", "-c", "change", "old")
    commit(repository, {"new": "4"})
    sides = taken(scratch, "main", "HEAD")
    found = git(repository, "rev-parse", "old")[:12]
    assert read(sides) == ("2", "2")
    assert sides.notes == [
        f"BASE is {found}, the merge base of main and HEAD, 1 commit before main."
    ]
    assert sides.base.label == f"base:main:{found}"
    assert sides.head.label == f"head:change:{git(repository, 'rev-parse', 'change')[:12]}"
    exact = taken(scratch, "main", "HEAD", exact=True)
    assert read(exact) == ("3", "2")
    assert exact.notes == []


def test_head_older_than_base_is_refused(repository: Path, scratch: Path) -> None:
    message = "BASE main contains HEAD old, so there is no change to measure; --exact compares them"
    assert message in refused(scratch, "main", "old")
    assert read(taken(scratch, "main", "old", exact=True)) == ("3", "2")
    assert taken(scratch, "main", "main").notes == [], "a side against itself is a question"


def test_commits_without_an_ancestor_name_the_depth(
    repository: Path, scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(repository, "switch", "--quiet", "--orphan", "other")
    commit(repository, {"text": "other"})
    message = refused(scratch, "main", "other")
    assert "main and other have no common ancestor" in message
    assert "fetch-depth: 0" in message
    assert read(taken(scratch, "main", "other", exact=True)) == ("3", "other")
    git(repository, "switch", "--quiet", "-c", "change", "old")
    commit(repository, {"new": "4"})
    origin = f"file://{repository}"
    git(tmp_path, "clone", "--quiet", "--depth=1", "--no-single-branch", origin, "shallow")
    git(tmp_path, "clone", "--quiet", "--depth=1", "--branch=change", origin, "alone")
    for folder, base in (("shallow", "origin/main"), ("alone", "origin/main"), ("alone", "HEAD~1")):
        monkeypatch.chdir(tmp_path / folder)
        assert "fetch-depth: 0" in refused(scratch, base, "HEAD"), (folder, base)


@pytest.mark.slow
def test_labels_name_branch_and_commit(repository: Path, scratch: Path) -> None:
    hash_ = git(repository, "rev-parse", "HEAD")
    git(repository, "tag", "--annotate", "--message", "", "v1")
    git(repository, "branch", ODD)
    of = {"main": "main", "HEAD": "main", "@": "main", "v1": "v1", "main@{0}": "main@{0}"}
    for text, name in of.items():
        assert taken(scratch, "old", text).head.label == f"head:{name}:{hash_[:12]}"
    for text in (hash_, hash_[:7], hash_.upper()):
        assert taken(scratch, "old", text).head.label == f"head:{hash_[:12]}"
    assert taken(scratch, "old", ODD).head.label == f"head:{ODD}:{hash_[:12]}"
    assert not (repository / "pwned").exists()
    git(repository, "switch", "--quiet", "--detach")
    assert taken(scratch, "old", "HEAD").head.label == f"head:HEAD:{hash_[:12]}"


def test_no_label_has_the_separator_of_settings(
    repository: Path, scratch: Path, tmp_path: Path
) -> None:
    (tmp_path / "a, b\x1b[31m").mkdir()
    commit(repository, {"text": "fix, again"})
    git(repository, "commit", "--quiet", "--amend", "--message", "fix, again")
    sides = taken(scratch, "../a, b\x1b[31m", "HEAD^{/fix, again}")
    for side in (sides.base, sides.head):
        assert ", " not in side.label
        assert side.label.isprintable()


def test_reason_of_git_is_shown(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "none").mkdir()
    monkeypatch.chdir(tmp_path / "none")
    with pytest.raises(SpecError, match="git: fatal: not a git repository"):
        sides_of("main", "HEAD", scratch, exact=False)
    made(tmp_path / "empty")
    monkeypatch.chdir(tmp_path / "empty")
    with pytest.raises(SpecError, match="BASE: found 'HEAD', allowed: a commit of"):
        sides_of("HEAD", "HEAD", scratch, exact=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SpecError, match="git cannot be run: No such file"):
        sides_of("HEAD", "HEAD", scratch, exact=False)


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives a folder away")
def test_dubious_ownership_is_the_reason(repository: Path, scratch: Path) -> None:
    for folder in (repository, repository / ".git"):
        os.chown(folder, 12345, 12345)
    with pytest.raises(SpecError, match=r"git: fatal: detected dubious ownership .*safe.directory"):
        sides_of("HEAD~1", "HEAD", scratch, exact=False)


def test_failing_filter_is_the_reason(repository: Path, scratch: Path) -> None:
    git(repository, "config", "filter.broken.clean", "cat")
    git(repository, "config", "filter.broken.smudge", "echo server is away >&2; exit 3")
    commit(repository, {".gitattributes": "text filter=broken\n"})
    git(repository, "config", "filter.broken.required", "true")
    message = refused(scratch, "HEAD~1", "HEAD")
    assert message.startswith("HEAD: git cannot check out HEAD (")
    assert "server is away" in message
    assert "smudge filter broken failed" in message


def test_damaged_object_is_the_reason(repository: Path, scratch: Path) -> None:
    blob = git(repository, "rev-parse", "HEAD:text")
    (repository / ".git/objects" / blob[:2] / blob[2:]).unlink()
    assert "HEAD: git cannot check out" in refused(scratch, "HEAD~1", "HEAD")


def test_folder_that_a_commit_lacks_is_its_root(
    repository: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(repository, {STEP: ""})
    monkeypatch.chdir(repository / "bench")
    sides = taken(scratch)
    assert sides.base.code.folder == sides.trees["base"].folder
    assert sides.head.code.folder == sides.trees["head"].folder / "bench"


@pytest.mark.slow
def test_two_at_once_do_not_meet(repository: Path) -> None:
    def one(_: int) -> tuple[str, str]:
        with scratch_for_gate() as scratch:
            return read(sides_of("HEAD~1", "HEAD", scratch, exact=False))

    with unchanged(repository), ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one, range(4))) == [("2", "3")] * 4


def _hook(repository: Path, name: str, *sides: str) -> Path:
    """A hook that looks at the sides. The file to which it writes what it found."""
    found = repository.parent / f"of-{name}"
    words = shlex.join([sys.executable, "-c", PROGRAM, *sides])
    _script(repository / ".git/hooks" / name, f"{words} > {found}")
    return found


def _script(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_pip_takes_no_module_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pip.py").write_text("open('ran', 'w')\n")
    (tmp_path / "mine-1.0-py3-none-any.whl").write_text("no wheel")
    with pytest.raises(SpecError, match="mine-1.0-py3-none-any.whl cannot be installed"):
        sides_of("./mine-1.0-py3-none-any.whl", ".", tmp_path / "scratch", exact=True)
    assert not (tmp_path / "ran").exists()
