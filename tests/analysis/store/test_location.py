"""What a results location may be, and how it is shown."""

from pathlib import Path

import pytest

from cudnn_sweep.analysis.errors import StoreError
from cudnn_sweep.analysis.store.folder import open_folder
from cudnn_sweep.analysis.store.location import Location

KEY = "SECRETSECRET"
WITH_KEYS = (
    f"s3://AKID:{KEY}@bucket/sweeps?endpoint_override=127.0.0.1:18555&scheme=http",
    f"s3://bucket/sweeps?secret_key={KEY}",
    f"gs://bucket/sweeps?access_token={KEY}",
    f"abfs://:{KEY}@container@account.dfs.core.windows.net/sweeps",
    f"s3://bucket/sweeps?region=x&X-Amz-Signature={KEY}",
    f"abfss://container@account.dfs.core.windows.net/sweeps?sv=2024&se=1&sp=rw&sig={KEY}",
    f"s3://{KEY}@bucket/sweeps",
    f"s3://bucket/sweeps?endpoint_override=user:{KEY}%40host",
    f"s3://bucket/sweeps?{KEY}",
    f"gs://{KEY}@bucket/sweeps",
    f"file:///data?sig={KEY}",
    f"s3:///AKID:{KEY}@bucket",
    f"s3://bucket/sweeps#secret_key={KEY}",
    f"s3://AKID:SEC/{KEY}@bucket/sweeps",
    f"s3://AKID:{KEY}/RET@bucket/sweeps",
    f"s3://AKID:{KEY}/RET@bucket/sweeps?region=[",
    f"abfss://container@account.dfs.core.windows.net/sweeps?{KEY}==",
)


@pytest.mark.parametrize("url", WITH_KEYS)
def test_url_that_holds_a_key_is_refused_and_the_key_not_shown(url: str) -> None:
    with pytest.raises(
        StoreError, match="key, and reports and logs would show it. Pass keys through "
    ) as refused:
        open_folder(url)
    assert KEY not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket/a?region=eu-1&scheme=http&endpoint_override=127.0.0.1:18555",
        "gs://anonymous@bucket",
        "abfss://container@account.dfs.core.windows.net/sweeps",
        "s3://bucket/mail@home",
        "hdfs://name:8020/sweeps",
    ],
)
def test_url_without_a_key_is_one(url: str) -> None:
    assert Location(url).is_url


def test_folder_is_found_where_the_shell_would_find_it() -> None:
    assert Location("~/sweeps").folder == Path.home() / "sweeps"
    assert Location("results").folder == Path("results")
    assert Location("file:///data/a%20b").folder == Path("/data/a b")
    assert Location("file:///data").is_local
    assert Location("file:///data").is_url, "on a cluster each node finds it there"


@pytest.mark.parametrize("text", ["a\0b", "s3://[bucket/x"])
def test_text_that_can_be_no_place_is_refused(text: str) -> None:
    with pytest.raises(StoreError, match="results location"):
        Location(text)
