"""The copy of a launch file that `ray up` gets: every Ray in it asks for a token."""

import copy
import os
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.reach.jobs import refuse_open_ray
from cudnn_sweep.cluster.reach.launcher import EXPORT, REMOTE_MARK, REMOTE_TOKEN, make_token, secure

TOKEN = Path("/home/me/.local/state/cudnn-sweep/mine/ray_token")
HEAD_START = "/opt/venv/bin/ray start --head --port=6379 --dashboard-host=0.0.0.0"
ON_PREMISES: dict[str, Any] = {
    "cluster_name": "mine",
    "provider": {"type": "local", "head_ip": "10.0.0.1", "worker_ips": ["10.0.0.2"]},
    "auth": {"ssh_user": "me"},
    "head_start_ray_commands": [
        "ray stop",
        f"ulimit -n 65536; {HEAD_START}",
    ],
    "worker_start_ray_commands": ["ray start --address=$RAY_HEAD_IP:6379"],
    "file_mounts": {"~/data": "/data"},
}


def test_every_start_gets_the_token_and_nothing_else_changes() -> None:
    before = copy.deepcopy(ON_PREMISES)
    secured = secure(ON_PREMISES, TOKEN)
    assert before == ON_PREMISES
    assert secured.config["head_start_ray_commands"] == [
        f"chmod 600 {REMOTE_TOKEN}",
        f"{EXPORT}ray stop",
        f"{EXPORT}ulimit -n 65536; env RAY_AUTH_MODE=token {HEAD_START}",
    ]
    assert secured.config["worker_start_ray_commands"] == [
        f"chmod 600 {REMOTE_TOKEN}",
        f"{EXPORT}env RAY_AUTH_MODE=token ray start --address=$RAY_HEAD_IP:6379",
    ]
    mark = str(TOKEN.with_name("brought_up"))
    mounts = {"~/data": "/data", REMOTE_TOKEN: str(TOKEN), REMOTE_MARK: mark}
    assert secured.config["file_mounts"] == mounts
    for key in ("cluster_name", "provider", "auth"):
        assert secured.config[key] == ON_PREMISES[key]
    assert yaml.safe_load(secured.text()) == secured.config


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
