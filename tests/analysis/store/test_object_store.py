"""Results in an object store, over HTTP: a server process that speaks S3."""

import subprocess
import sys
import time
import urllib.request
import zlib
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError

import pytest

from cudnn_sweep.analysis import open_results
from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.errors import StoreError
from cudnn_sweep.analysis.store.store import Store, open_store
from tests.analysis.conftest import make_pair

START_S = 30
COUNT = "select count(*) as trials from records"
# It takes a free port by itself and says which; a port that a test finds free may be taken by then.
SERVER = """
import sys, threading
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
threading.Event().wait()
"""


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = (tmp_path_factory.mktemp("s3") / "log").open("w")
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, stderr=log, text=True
    )
    try:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        _wait_for(url)
        yield url
    finally:
        server.kill()
        server.wait()
        log.close()
        if server.stdout is not None:
            server.stdout.close()


@pytest.fixture
def bucket(endpoint: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A bucket of the test's own, found as a user's: by what the environment says."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "something")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    name = f"bucket-{zlib.crc32(request.node.name.encode())}"
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{name}", method="PUT"), timeout=10)
    return name


@pytest.fixture
def remote(bucket: str) -> Store:
    """Four blocks of two trials below a prefix."""
    store = open_store(f"s3://{bucket}/some/results")
    for block in range(4):
        for record in make_pair(block, 10.0 + block / 100, 12.0 - block / 100):
            store.write(record)
    return store


def test_trials_are_found_again_loose_and_compacted(remote: Store) -> None:
    remote.check_writable()
    loose = remote.stored_trials("night-1")
    assert len(loose) == len(remote.files()) == 8
    remote.compact("night-1")
    assert len(remote.files()) == 1
    assert open_store(remote.location).stored_trials("night-1") == loose
    assert remote.sweeps()[0].recorded == 8


@pytest.mark.slow
@pytest.mark.parametrize("copied_rows", [0, 500])
def test_a_question_is_answered_though_parts_are_merged_meanwhile(
    remote: Store, monkeypatch: pytest.MonkeyPatch, copied_rows: int
) -> None:
    monkeypatch.setattr("cudnn_sweep.analysis.store.store.MANY_PARTS", 2)
    monkeypatch.setattr("cudnn_sweep.analysis.engine.database.FEW_ROWS", copied_rows)
    remote.compact("night-1")
    with open_database(open_store(remote.location)) as database:
        if not copied_rows:  # a copy stays as it was at the first question
            assert database.query(COUNT).to_pylist() == [{"trials": 8}]
        for block in (10, 11):
            for record in make_pair(block, 10.0, 12.0):
                remote.write(record)
            remote.compact("night-1")
        assert database.query(COUNT).to_pylist() == [{"trials": 12}]
    assert len(remote.files()) == 1


def test_a_torn_object_is_left_out_then_set_aside(remote: Store) -> None:
    torn = remote.files()[0]
    content = remote.folder.read(torn)
    remote.folder.write(torn, content[: content.size - 100])
    assert len(remote.stored_trials("night-1")) == 7
    assert remote.set_aside_torn() == [f"{remote.location}/{torn}.torn"]
    assert len(remote.files()) == 7


def test_the_endpoint_may_be_part_of_the_url(
    remote: Store, endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In a home of its own, where DuckDB has no extension, and gets none."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    host = endpoint.removeprefix("http://")
    url = f"{remote.location}?scheme=http&endpoint_override={host}"
    assert len(open_results(url).sql("from records")) == 8
    assert not list(tmp_path.rglob("*.duckdb_extension"))


def test_what_an_object_store_refuses_is_named(bucket: str) -> None:
    store = open_store(f"s3://{bucket}-missing/results")
    with pytest.raises(StoreError, match=f"cannot be stored in s3://{bucket}-missing/results"):
        store.check_writable()


def _wait_for(url: str) -> None:
    last = time.monotonic() + START_S
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except (URLError, ConnectionError):
            if time.monotonic() > last:
                raise
            time.sleep(0.1)
