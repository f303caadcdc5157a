"""Values as SQL writes them."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cudnn_sweep.analysis.storing.schema import SettingValue


def literal(value: SettingValue) -> str:
    """A value, a mapping's keys in order."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, Mapping):
        pairs = (f"{literal(key)}: {literal(value[key])}" for key in sorted(value))
        return f"map {{{', '.join(pairs)}}}"
    is_odd = isinstance(value, float) and not isfinite(value)
    return f"'{value}'" if is_odd else str(value).lower()
