"""Configuration of our pydantic models: types as written, no unknown keys, finite numbers."""

from pydantic import ConfigDict

STRICT = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)
