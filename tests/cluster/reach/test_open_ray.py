import pytest

from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.reach.jobs import refuse_open_ray


@pytest.mark.parametrize("address", ["10.0.0.7:6379", "[fd00::7]:6379", "head.example:6379"])
def test_open_ray_elsewhere_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asks = "ray._private.authentication.authentication_utils.is_token_auth_enabled"
    monkeypatch.setattr(asks, lambda: False)
    with pytest.raises(ClusterError, match="takes jobs from anybody who reaches it"):
        refuse_open_ray(address)
    refuse_open_ray("127.0.0.1:6379")
    monkeypatch.setattr(asks, lambda: True)
    refuse_open_ray(address)
