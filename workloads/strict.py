"""Pydantic configuration: strict types, no unknown keys, only finite numbers."""

from pydantic import ConfigDict

STRICT = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)
