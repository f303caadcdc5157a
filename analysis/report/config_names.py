"""What a config is called: `benchmark`, and whatever else is not as PyTorch has it."""

from collections.abc import Mapping
from typing import TypeAlias

Scalar: TypeAlias = str | float | int | bool | None
Row: TypeAlias = Mapping[str, Scalar]

PYTORCH_SETTINGS = {
    "enabled": "true",
    "benchmark_limit": "10",
    "deterministic": "false",
    "heuristic_mode_b": "false",
    "plan_cache_limit": "null",
    "compute_cache_disabled": "false",
}
"""What goes unsaid in a config's name; `benchmark` is always said."""


def _config_name(settings: Mapping[str, str]) -> str:
    differing = (name for name, usual in PYTORCH_SETTINGS.items() if settings[name] != usual)
    return " ".join(f"{name}={settings[name]}" for name in ("benchmark", *differing))


def config_of(row: Row) -> str:
    """Of a row that has a column for each setting."""
    texts = {name: _text(row[name]) for name in ("benchmark", *PYTORCH_SETTINGS)}
    if row["compute_cache_disabled"] is None:  # unknown to older schemas
        texts["compute_cache_disabled"] = "false"
    return _config_name(texts)


def config_of_text(settings: Scalar) -> str:
    """Of settings as questions have them in one column: `name=value, name=value`."""
    pairs = (setting.partition("=") for setting in str(settings).split(", "))
    return _config_name({name: value for name, _, value in pairs})


def _text(value: Scalar) -> str:
    return "null" if value is None else str(value).lower()
