"""The files of docs/examples/gate, played in the order of their service. `sweep`, `pip`, `gh` and Buildkite's agent are
stand-ins that note what they were asked.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.main import get_command

from cudnn_sweep.orchestrator.cli import app

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs/examples/gate"
REPOSITORY = "lab/model"
MARK = "<!-- sweep gate -->"
ANSWERED = "repos/lab/model/issues/7/comments"
PULLS = "repos/lab/model/pulls?state=open"
SYSTEM = "/usr/bin:/bin"
STAND_INS = {
    "python3": """
        mkdir -p "${!#}/bin"; ln -sf "$STAND_INS/pip" "$STAND_INS/sweep" "${!#}/bin"
    """,
    "pip": 'echo "$@" >> "$STAND_INS/installed"',
    "sweep": """
        printf '%q ' "$@" >> "$STAND_INS/typed"; echo >> "$STAND_INS/typed"
        code=$(head -n 1 "$STAND_INS/codes"); sed -i 1d "$STAND_INS/codes"
        text="**Answer $code** of $3"
        for side in "$2" "$3"; do
            if ! git rev-parse -q --verify "$side^{commit}" > /dev/null; then code=2; text="found $side"; fi
        done
        echo "$text"
        while [ $# -gt 0 ]; do
            case "$1" in
                --write) case "$2" in *.md) echo "$text" > "$2" ;; *) echo '<testsuite/>' > "$2" ;; esac ;;
                --cannot-tell) if [ "$2 $code" = "ok 3" ]; then code=0; fi ;;
            esac
            shift
        done
        exit "$code"
    """,
    "buildkite-agent": 'cat > "$STAND_INS/$*"',
}
GH = f"""#!{sys.executable} -IS
import json, subprocess, sys
from argparse import ArgumentParser
from pathlib import Path
read = ArgumentParser(allow_abbrev=False)
read.add_argument("api", choices=["api"])
read.add_argument("url")
read.add_argument("--paginate", action="store_true")
read.add_argument("--method")
read.add_argument("--jq")
read.add_argument("-F")
asked = read.parse_args()
file = Path(__file__).with_name("github.json")
lists = json.loads(file.read_text())
if asked.F is None:
    answer = json.dumps(lists[asked.url])
    sys.exit(subprocess.run(["jq", "-r", asked.jq], input=answer, text=True).returncode)
body = Path(asked.F.removeprefix("body=@")).read_text()
if asked.method == "PATCH":
    (one,) = [each for every in lists.values() for each in every if each.get("url") == asked.url]
    one["body"] = body
else:
    user = {{"login": "github-actions[bot]"}}
    url = f"https://api/{{len(lists[asked.url])}}"
    lists[asked.url].append({{"url": url, "user": user, "body": body}})
file.write_text(json.dumps(lists))
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Played:
    """What came of a job."""

    result: str
    output: str
    tells: str
    """What the service shows of the gate: a comment, an annotation or a kept file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """A machine with a clone of a repository on a branch, and stand-ins of all that a job calls."""

    root: Path
    environment: Mapping[str, str]
    base: str = "main"

    @property
    def clone(self) -> Path:
        return self.root / "clone"

    @property
    def stand_ins(self) -> Path:
        return self.root / "stand-ins"

    def git(self, *words: str, here: str = "clone") -> str:
        command = ["git", "-C", str(self.root / here), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def shell(
        self, script: str, variables: Mapping[str, str], here: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-eo", "pipefail", "-c", script],
            cwd=here or self.clone,
            env={**self.environment, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def answers(self, *codes: int) -> None:
        """Of the next gates, the exit codes."""
        (self.stand_ins / "codes").write_text("".join(f"{code}\n" for code in codes))

    def typed(self) -> list[list[str]]:
        return [shlex.split(line) for line in (self.stand_ins / "typed").read_text().splitlines()]

    def comments(self, at: str = ANSWERED) -> list[str]:
        found = json.loads((self.stand_ins / "github.json").read_text())[at]
        return [comment["body"] for comment in found]

    def has_comments(self, **lists: Sequence[Mapping[str, Any]]) -> None:
        empty: dict[str, list[object]] = {PULLS: [], ANSWERED: []}
        (self.stand_ins / "github.json").write_text(json.dumps({**empty, **lists}))


@pytest.fixture
def host(tmp_path: Path, need: Callable[[bool, str], None]) -> Host:
    need(shutil.which("jq", path=SYSTEM) is not None, "jq, which filters as gh does")
    stand_ins = tmp_path / "stand-ins"
    stand_ins.mkdir()
    for name, script in STAND_INS.items():
        (stand_ins / name).write_text(f"#!/bin/bash\nset -e\n{script}\n")
    (stand_ins / "gh").write_text(GH)
    for file in stand_ins.iterdir():
        file.chmod(0o755)
    environment = {
        "PATH": f"{stand_ins}:{SYSTEM}",
        "HOME": str(tmp_path),
        "STAND_INS": str(stand_ins),
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    made = Host(root=tmp_path, environment=environment)
    made.has_comments()
    done = made.shell(
        """
        git init -q --initial-branch main up
        export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        git -C up commit -q --allow-empty -m one
        git clone -q up clone
        cd clone
        git commit -q --allow-empty -m change
        """,
        {},
        tmp_path,
    )
    assert done.returncode == 0, done.stdout
    return made


def content(name: str) -> Any:
    return YAML(typ="safe", pure=True).load((EXAMPLES / name).read_text())


# GitHub -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class GitHub:
    """Plays the jobs of a workflow, each on a machine of its own; artifacts outlive them."""

    host: Host
    known: Mapping[str, str]
    """By its name in an expression."""

    @property
    def artifact(self) -> Path:
        return self.host.root / "artifact"

    def filled(self, value: Any) -> str:
        return re.sub(r"\$\{\{ (.*?) \}\}", lambda found: self.known[found[1]], str(value))

    def holds(self, condition: str, *, well: bool) -> bool:
        """An `if:`, which may have `${{ }}` around it."""
        words = condition.removeprefix("${{ ").removesuffix(" }}")
        if not re.search(r"\b(always|cancelled|failure)\(\)", words):
            words = f"success() && {words}"
        words = re.sub(r"github(\.\w+)+", lambda found: repr(self.known[found[0]]), words)
        words = words.replace("&&", "and").replace("!cancelled()", "True")
        return bool(eval(words, {"always": lambda: True, "success": lambda: well}))

    def job(self, job: Mapping[str, Any], here: Path) -> tuple[bool, str]:
        """Whether it went well, and its log."""
        well, log = True, ""
        for step in job["steps"]:
            if not self.holds(step.get("if", "success()"), well=well):
                continue
            done, text = self.uses(step, here) if "uses" in step else self.runs(step, here)
            log += text
            well = well and (done or step.get("continue-on-error", False))
        return well, log

    def runs(self, step: Mapping[str, Any], here: Path) -> tuple[bool, str]:
        variables = {name: self.filled(value) for name, value in step.get("env", {}).items()}
        summary = str(self.host.root / "summary")
        done = self.host.shell(step["run"], {"GITHUB_STEP_SUMMARY": summary, **variables}, here)
        return done.returncode == 0, done.stdout

    def uses(self, step: Mapping[str, Any], here: Path) -> tuple[bool, str]:
        action, given = step["uses"].partition("@")[0], step["with"]
        if action == "actions/checkout":
            assert given["fetch-depth"] == 0
            assert given["persist-credentials"] is False
            self.host.git("checkout", "-q", self.filled(given["ref"]))
        elif action == "actions/upload-artifact":
            path = Path(self.filled(given["path"]))
            self.artifact.mkdir(exist_ok=True)
            for file in path.parent.glob(path.name):
                shutil.copy(file, self.artifact)
        else:
            assert action == "actions/download-artifact"
            if not self.artifact.exists() or not any(self.artifact.iterdir()):
                return False, "no artifact"
            shutil.copytree(self.artifact, here / given["path"], symlinks=True)
        return True, ""


def github(host: Host, head: str = REPOSITORY) -> GitHub:
    sha, server = host.git("rev-parse", "HEAD"), "https://github.example"
    pull = "github.event.pull_request.head"
    run = "github.event.workflow_run"
    known = {
        "github.base_ref": host.base,
        "github.event.number": "7",
        "github.repository": REPOSITORY,
        "github.run_id": "42",
        "github.server_url": server,
        "github.token": "secret",
        "runner.temp": str(host.root / "temp"),
        f"{pull}.repo.full_name": head,
        f"{pull}.sha": sha,
        f"{run}.event": "pull_request",
        f"{run}.head_repository.full_name": head,
        f"{run}.head_sha": sha,
        f"{run}.html_url": f"{server}/{REPOSITORY}/actions/runs/42",
        f"{run}.id": "42",
    }
    return GitHub(host=host, known=known)


def on_github(host: Host, head: str = REPOSITORY) -> Played:
    service, jobs = github(host, head), content("github.yml")["jobs"]
    well, log = service.job(jobs["gate"], host.clone)
    if service.holds(jobs["comment"]["if"], well=well):
        posts(host, service, jobs["comment"])
    result = "failed" if not well else "warned" if "::warning::" in log else "passed"
    return Played(result=result, output=log, tells="".join(host.comments()[-1:]))


def posts(host: Host, service: GitHub, job: Mapping[str, Any]) -> None:
    machine = host.root / "other machine"
    machine.mkdir()
    well, log = service.job(job, machine)
    shutil.rmtree(machine)
    assert well, log


def from_a_fork(host: Host) -> None:
    """The second workflow, after the first has ended."""
    service, job = github(host, "stranger/model"), content("github-comment.yml")["jobs"]["comment"]
    assert service.holds(job["if"], well=True)
    posts(host, service, job)


# GitLab, Buildkite --------------------------------------------------------------------------------


def tried(
    run: Callable[[], subprocess.CompletedProcess[str]], again: int, warns: int
) -> tuple[str, str]:
    """Return the result and the log; after the exit code `again` the service tries once more."""
    done = run()
    if done.returncode == again:
        done = run()
    results = {0: "passed", warns: "warned"}
    return results.get(done.returncode, "failed"), done.stdout


def on_gitlab(host: Host) -> Played:
    job = content("gitlab.yml")["gate"]
    script = "\n".join([*job["before_script"], *job["script"]])
    variables = {
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": host.git("merge-base", f"origin/{host.base}", "HEAD"),
        "CI_BUILDS_DIR": str(host.root),
    }
    assert job["variables"] == {"GIT_DEPTH": 0}
    assert job["retry"]["max"] == 1
    again, warns = job["retry"]["exit_codes"], job["allow_failure"]["exit_codes"]
    result, log = tried(lambda: host.shell(script, variables), again, warns)
    assert job["artifacts"]["when"] == "always"
    (kept,) = job["artifacts"]["paths"]
    assert (host.clone / job["artifacts"]["reports"]["junit"]).exists()
    return Played(result=result, output=log, tells=(host.clone / kept).read_text())


def on_buildkite(host: Host) -> Played:
    (step,) = content("buildkite.yml")["steps"]
    script = "\n".join(step["commands"])
    assert not re.search(r"(?<!\$)\$(?!\$)", script), "`pipeline upload` would fill it in"
    (again,), (warns,) = step["retry"]["automatic"], step["soft_fail"]
    assert again["limit"] == 1
    variables = {"BUILDKITE_PULL_REQUEST_BASE_BRANCH": host.base}
    result, log = tried(
        lambda: host.shell(script.replace("$$", "$"), variables),
        again["exit_status"],
        warns["exit_status"],
    )
    tells = (host.stand_ins / "annotate --context gate").read_text()
    return Played(result=result, output=log, tells=tells)


Service = Callable[[Host], Played]
SERVICES = [on_github, on_gitlab, on_buildkite]
services = pytest.mark.parametrize("service", SERVICES, ids=lambda each: each.__name__)


# What a user needs --------------------------------------------------------------------------------


@services
@pytest.mark.parametrize(
    ("code", "result"),
    [
        (0, "passed"),
        (1, "failed"),
        (2, "failed"),
        (3, "warned"),
        (4, "failed"),
        (143, "failed"),
    ],
)
def test_job_has_the_result_of_its_gate_and_shows_the_answer(
    host: Host, service: Service, code: int, result: str
) -> None:
    host.answers(code)
    played = service(host)
    assert played.result == result, played.output
    assert f"**Answer {code}**" in played.tells
    assert len(host.typed()) == 1


@services
def test_gate_that_could_not_finish_runs_once_more(host: Host, service: Service) -> None:
    host.answers(6, 0)
    assert service(host).result == "passed"
    host.answers(6, 6, 0)
    assert service(host).result == "failed"
    assert len(host.typed()) == 4


def test_base_that_was_not_fetched_is_named_in_the_comment(host: Host) -> None:
    host.git("update-ref", "-d", "refs/remotes/origin/main")
    host.answers(0)
    played = on_github(host)
    assert played.result == "failed"
    assert "found origin/main" in played.tells


@services
def test_lines_are_those_of_the_command(host: Host, service: Service) -> None:
    host.answers(0)
    service(host)
    (words,) = host.typed()
    assert_parses(words)
    assert "/opt/cudnn-sweep -e ." in (host.stand_ins / "installed").read_text()


def assert_parses(words: list[str]) -> None:
    group: Any = get_command(app)
    command = group.commands["gate"]
    assert words.pop(0) == "gate"
    asked = command.make_context("gate", words).params
    assert asked["workload"] == "bench/step.py:step"
    assert asked["results"]


@pytest.mark.parametrize("service", [on_github, on_buildkite], ids=lambda each: each.__name__)
def test_name_of_a_branch_is_no_command(host: Host, service: Service) -> None:
    name = 'main";touch${IFS}owned;$(touch${IFS}owned)`touch${IFS}owned`'
    host.git("branch", name, "main", here="up")
    host.git("fetch", "-q")
    host.answers(0)
    played = service(replace(host, base=name))
    assert played.result == "passed", played.output
    assert host.typed()[0][1] == f"origin/{name}"
    assert not [*host.root.rglob("owned")]


def test_second_push_edits_the_comment_and_no_other(host: Host) -> None:
    bot, somebody = {"login": "github-actions[bot]"}, {"login": "somebody"}
    others = [
        {"url": "https://api/a", "user": bot, "body": "Coverage: 90%"},
        {"url": "https://api/b", "user": somebody, "body": f"{MARK} I am the gate"},
    ]
    host.has_comments(**{ANSWERED: others})
    host.answers(1, 0)
    on_github(host)
    on_github(host)
    assert host.comments()[:2] == [comment["body"] for comment in others]
    (ours,) = host.comments()[2:]
    assert ours.startswith(f"{MARK}\n\n**Answer 0**")
    assert "**Answer 1**" in (host.root / "summary").read_text()


def test_install_that_fails_leaves_a_comment_with_the_log(host: Host) -> None:
    (host.stand_ins / "pip").write_text("#!/bin/bash\nexit 1\n")
    assert on_github(host).result == "failed"
    (comment,) = host.comments()
    assert comment.endswith("no answer: https://github.example/lab/model/actions/runs/42\n")


def test_comment_of_a_fork_is_posted_by_the_second_workflow(host: Host) -> None:
    at = host.git("rev-parse", "HEAD")
    pulls = [{"number": 9, "head": {"sha": "0" * 40}}, {"number": 7, "head": {"sha": at}}]
    host.has_comments(**{PULLS: pulls})
    host.answers(1, 0)
    assert on_github(host, "stranger/model").result == "failed"
    assert not host.comments()
    from_a_fork(host)
    assert host.comments() == [f"{MARK}\n\n    **Answer 1** of HEAD\n"]
    on_github(host, "stranger/model")
    from_a_fork(host)
    assert host.comments() == [f"{MARK}\n\n    **Answer 0** of HEAD\n"]
    host.has_comments()  # closed meanwhile
    from_a_fork(host)
    assert not host.comments()


@pytest.mark.parametrize("written", ["text", "link", "nothing"])
def test_artifact_of_a_stranger_is_text_of_their_own_pull_request(host: Host, written: str) -> None:
    at = host.git("rev-parse", "HEAD")
    host.has_comments(**{PULLS: [{"number": 7, "head": {"sha": at}}]})
    artifact, secret = host.root / "artifact", host.root / "secret"
    artifact.mkdir()
    secret.write_text("token")
    if written == "text":
        (artifact / "gate.md").write_bytes(
            b"```\n@all [merge](http://evil)\r# Head\x1b[31m\n" * 4000
        )
        (artifact / "number").write_text("9")
    if written == "link":
        (artifact / "gate.md").symlink_to(secret)
    from_a_fork(host)
    (comment,) = host.comments()
    assert len(comment) < 65536
    assert "token" not in comment
    if written != "text":
        assert comment.startswith(f"{MARK}\n\nThe gate gave no answer: https://")
        return
    assert "\x1b" not in comment
    lines = re.split(r"[\r\n]", comment.removeprefix(f"{MARK}\n\n").rstrip("\n"))
    assert all(line.startswith("    ") for line in lines), "Markdown shows it as code"


def test_cron_mails_a_slower_step_and_nothing_else(host: Host) -> None:
    (line,) = [line for line in (EXAMPLES / "crontab").read_text().splitlines() if line[0] == "0"]
    command = line.split(maxsplit=5)[5]
    assert "%" not in command, "cron would cut it there"
    model, log = str(host.clone), str(host.root / "gate.log")
    places = {"/srv/model": model, "/opt/venv/bin/": "", "/srv/gate.log": log}
    for place, ours in places.items():
        command = command.replace(place, ours)
    host.git("branch", "-q", "--set-upstream-to", "origin/main")
    host.answers(0, 3, 1)
    mails = [host.shell(command, {}).stdout for _ in range(3)]
    assert mails == ["", "", "**Answer 1** of HEAD\n"]
    for words in host.typed():
        assert_parses(words)


# Linters ------------------------------------------------------------------------------------------

SCHEMAS = {
    "github.yml": "github-workflows",
    "github-comment.yml": "github-workflows",
    "gitlab.yml": "gitlab-ci",
    "buildkite.yml": "buildkite",
}


def scripts(name: str) -> list[str]:
    read = content(name)
    if name.startswith("github"):
        steps = [step for job in read["jobs"].values() for step in job["steps"]]
        return [step["run"] for step in steps if "run" in step]
    if name == "gitlab.yml":
        return ["\n".join([*read["gate"]["before_script"], *read["gate"]["script"]])]
    return ["\n".join(step["commands"]).replace("$$", "$") for step in read["steps"]]


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEMAS)
def test_file_is_what_its_service_reads(name: str) -> None:
    check = ["-m", "check_jsonschema", "--builtin-schema", f"vendor.{SCHEMAS[name]}"]
    subprocess.run([sys.executable, *check, EXAMPLES / name], check=True, capture_output=True)
    assert len((EXAMPLES / name).read_text().splitlines()) < 60


@pytest.mark.parametrize("name", SCHEMAS)
def test_shell_of_a_file_is_sound(name: str) -> None:
    shellcheck = Path(sysconfig.get_path("scripts"), "shellcheck")
    for script in scripts(name):
        assert "${{" not in script, "an expression in a script is pasted into it"
        command = [str(shellcheck), "--shell", "bash", "-"]
        done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def test_every_example_is_played() -> None:
    assert {file.name for file in EXAMPLES.iterdir()} == {*SCHEMAS, "crontab"}
