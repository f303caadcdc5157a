"""A launch file's copy for `ray up` in which every Ray asks for a token. The user's file stays as it is.

Without a token anybody who reaches the dashboard's port runs code on the cluster (CVE-2023-48022, which
Ray answers by token authentication from 2.54 on).
"""

import copy
import difflib
import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

# Directly at home: a folder that Docker makes for a mount is root's, and our results lie in ~/.cudnn-sweep.
REMOTE_TOKEN = "~/.cudnn-sweep-token"  # a path
REMOTE_MARK = "~/.cudnn-sweep-brought-up"
MARK = "brought_up"  # a file beside the token
# In front of a whole command, so that it holds however the command starts its Ray.
EXPORT = 'export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH="$HOME/.cudnn-sweep-token"; '
START_COMMANDS = ("head_start_ray_commands", "worker_start_ray_commands")
CHANGED = (*START_COMMANDS, "file_mounts")
# And in front of each `ray start` in it, so that it holds also where the command drops the variable before.
START = re.compile(r"[\w./~${}-]*\bray\s+start\b")
START_WITH_TOKEN = r"env RAY_AUTH_MODE=token \g<0>"
EVERYBODY = "--dashboard-host=0.0.0.0"
LOOPBACK = "--dashboard-host=127.0.0.1"


@dataclass(frozen=True, kw_only=True, slots=True)
class SecuredFile:
    config: dict[str, Any]
    """What `ray up` is given."""
    difference: str
    """From the user's file with Ray's defaults filled in, as a unified diff."""

    def text(self) -> str:
        found: str = yaml.safe_dump(self.config, sort_keys=False)
        return found


def secure(ray_part: Mapping[str, Any], token: Path) -> SecuredFile:
    """`token`: the file on this machine that every node is to have a copy of."""
    from ray.autoscaler._private.util import prepare_config

    config = copy.deepcopy(dict(ray_part))
    filled = prepare_config(copy.deepcopy(config))
    before: dict[str, Any] = {
        key: filled.get(key) or ([] if key in START_COMMANDS else {}) for key in CHANGED
    }
    for key in START_COMMANDS:
        commands = [EXPORT + START.sub(START_WITH_TOKEN, str(each)) for each in before[key]]
        if key not in ray_part:  # Ray's default shows the dashboard to every network
            commands = [command.replace(EVERYBODY, LOOPBACK) for command in commands]
        config[key] = [f"chmod 600 {REMOTE_TOKEN}", *commands]
    ours = {REMOTE_TOKEN: str(token), REMOTE_MARK: str(token.with_name(MARK))}
    config["file_mounts"] = {**before["file_mounts"], **ours}
    after = {key: config[key] for key in CHANGED}
    return SecuredFile(config=config, difference=_difference(before, after))


def make_token(path: Path) -> None:
    """A random one, readable by its owner alone; one that is there stays."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with suppress(FileExistsError), open(path, "x", opener=_for_us_alone) as file:
        file.write(secrets.token_hex(32))


def mark_anew(token: Path) -> None:
    """Before `ray up`: it copies files to a node only where they differ from what it copied last, even
    where that node has lost its disk since.
    """
    token.with_name(MARK).write_text(secrets.token_hex(8))


def _for_us_alone(path: str, flags: int) -> int:
    return os.open(path, flags, mode=0o600)


def _difference(before: dict[str, Any], after: dict[str, Any]) -> str:
    # A command keeps to its line.
    texts = (yaml.safe_dump(part, sort_keys=False, width=10**6) for part in (before, after))
    old, new = (text.splitlines() for text in texts)
    return "\n".join(difflib.unified_diff(old, new, "your file", "as launched", lineterm=""))
