"""The copy of a launch file that `ray up` gets: every Ray in it asks for a token."""

import os
import stat
from pathlib import Path

import pytest

from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.reach.jobs import refuse_open_ray
from cudnn_sweep.cluster.reach.launcher import make_token


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_token_is_its_owners_alone_and_stays(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "clusters" / "mine" / "ray_token"
    before = os.umask(umask)
    try:
        make_token(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    token = path.read_text()
    assert len(token) == 64
    make_token(path)
    assert path.read_text() == token


@pytest.mark.parametrize("address", ["10.0.0.7:6379", "[fd00::7]:6379", "head.example:6379"])
def test_open_ray_elsewhere_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asks = "ray._private.authentication.authentication_utils.is_token_auth_enabled"
    monkeypatch.setattr(asks, lambda: False)
    with pytest.raises(ClusterError, match="takes jobs from anybody who reaches it"):
        refuse_open_ray(address)
    refuse_open_ray("127.0.0.1:6379")
    monkeypatch.setattr(asks, lambda: True)
    refuse_open_ray(address)
