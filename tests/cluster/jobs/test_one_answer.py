"""What one answer of a cluster's dashboard means, and which start commands are changed, without a cluster."""

from collections.abc import AsyncIterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.jobs import jobs as jobs_module
from cudnn_sweep.cluster.jobs import launcher
from cudnn_sweep.cluster.jobs.jobs import Jobs, KnownCluster, SentJob, _url, refuse_open_cluster
from cudnn_sweep.cluster.jobs.launcher import difference, secure


def jobs_of(**client: Any) -> Jobs:
    made = object.__new__(Jobs)
    made._client = SimpleNamespace(**client)  # type: ignore[assignment]
    made._errors_named = nullcontext  # type: ignore[method-assign,assignment]
    return made


@pytest.mark.parametrize(("message", "text"), [(None, ""), ("killed", "killed")])
def test_a_jobs_state_has_rays_message(message: str | None, text: str) -> None:
    info = SimpleNamespace(status="FAILED", message=message)
    assert jobs_of(get_job_info=lambda _: info).state("job") == ("FAILED", text)


@pytest.mark.parametrize(("node", "text"), [(None, ""), ("node-1", "lines of node-1")])
def test_a_job_that_has_not_begun_has_no_lines(
    monkeypatch: pytest.MonkeyPatch, node: str | None, text: str
) -> None:
    made = jobs_of(get_job_info=lambda _: SimpleNamespace(driver_node_id=node))
    made.url, made._headers = "http://head", {}
    lines = f"lines of {node}"
    monkeypatch.setattr(jobs_module, "_get", lambda url, _: lines if str(node) in url else url)
    assert made.last_lines("job", 3) == text


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        (["a\nb", "c\n"], ["a", "bc"]),
        (["a\n\n", "rest"], ["a", "", "rest"]),
        ([], []),
        (["\n"], [""]),
    ],
)
def test_a_jobs_output_comes_by_lines(pieces: Sequence[str], lines: list[str]) -> None:
    async def tail(_: str) -> AsyncIterator[str]:
        for piece in pieces:
            yield piece

    assert list(jobs_of(tail_job_logs=tail).follow("job")) == lines


@pytest.mark.parametrize(
    ("fails_s", "tries"),
    [(0, 1), (2, 3), (jobs_module.AGENT_S, int(jobs_module.AGENT_S) + 1), (1e9, None)],
)
def test_a_job_is_sent_again_until_the_heads_agent_is_up(
    monkeypatch: pytest.MonkeyPatch, fails_s: float, tries: int | None
) -> None:
    now_s, sent = [0.0], list[float]()

    def submit(_: Any, limit_s: float) -> None:
        sent.append(now_s[0])
        if now_s[0] < fails_s:
            raise ClusterError("refused") from RuntimeError(jobs_module.NO_AGENT)

    def pause(seconds: float) -> None:
        now_s[0] += seconds

    monkeypatch.setattr(jobs_module, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(jobs_module, "sleep", pause)
    made = jobs_of(submit_job=print)
    made._answer = submit  # type: ignore[method-assign,assignment]
    job = SentJob(job_id="job", results="results", sweep="sweep", night="")

    def send() -> None:
        made.submit(job, "us", "run", {})

    if tries is not None:
        send()
        assert len(sent) == tries
        return
    with pytest.raises(ClusterError, match="refused"):
        send()
    assert sent[-1] == jobs_module.AGENT_S + 1


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("head:8265", "http://head:8265"),
        ("https://head", "https://head"),
        ("http://head:8265", "http://head:8265"),
        ("ray://head:10001", "such as head:8265"),
        ("ray://", "such as HOST:8265"),
    ],
)
def test_an_address_is_a_dashboards(address: str, url: str) -> None:
    if url.startswith("http"):
        assert _url(address) == url
        return
    with pytest.raises(ClusterError, match=url):
        _url(address)


@pytest.mark.parametrize(
    ("address", "answers", "refused"),
    [
        ("127.0.0.1:8265", True, False),
        ("head:8265", True, True),
        ("head:8265", False, False),
    ],
)
def test_a_cluster_elsewhere_that_answers_anybody_is_refused(
    monkeypatch: pytest.MonkeyPatch, address: str, answers: bool, refused: bool
) -> None:
    monkeypatch.setattr(jobs_module, "answers_anybody", lambda _: answers)
    with pytest.raises(ClusterError, match="takes jobs from anybody") if refused else nullcontext():
        refuse_open_cluster(address)


START = "ray start --head --dashboard-host=0.0.0.0"


@pytest.fixture
def _defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's defaults: one start command each, and no files."""
    usual = {key: [START] for key in launcher.START_COMMANDS}
    monkeypatch.setattr(
        launcher, "with_defaults", lambda part: {**usual, "file_mounts": None, **part}
    )


@pytest.mark.usefixtures("_defaults")
def test_only_rays_own_start_commands_lose_the_dashboard_of_every_network() -> None:
    own, other = launcher.START_COMMANDS[:2]
    config = secure({own: [START]}, Path("token"))
    assert launcher.EVERYBODY in config[own][-1]
    assert launcher.EVERYBODY not in config[other][-1]
    assert launcher.LOOPBACK in config[other][-1]
    assert len(config["file_mounts"]) == 2
    more = secure({"file_mounts": {"/here": "there"}}, Path("token"))
    assert len(more["file_mounts"]) == 3
    assert secure({own: None}, Path("token"))[own][1:] == []


@pytest.mark.usefixtures("_defaults")
def test_the_difference_has_one_line_for_each_command() -> None:
    part: dict[str, Any] = {launcher.START_COMMANDS[0]: ["echo " + "long words " * 200]}
    changes = difference(part, secure(part, Path("token")))
    (long,) = (line for line in changes.splitlines() if "echo" in line and line.startswith("+"))
    assert long.count("long words") == 200
    assert "your file" in changes


@pytest.mark.parametrize("state_home", [None, "state"])
def test_files_about_a_cluster_lie_in_the_users_state_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, state_home: str | None
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    if state_home is not None:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / state_home))
    folder = tmp_path / (state_home or ".local/state") / "cudnn-sweep/clusters/a_b"
    assert KnownCluster("a/b").token == folder / "ray_token"
