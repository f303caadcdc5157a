"""Where a user's own files lie, as the XDG Base Directory Specification names them."""

from collections.abc import Mapping
from pathlib import Path


def config_home(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def state_home(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
