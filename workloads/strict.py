"""Configuration of our pydantic models: types as written, unknown keys refused, numbers finite."""

from pydantic import ConfigDict

STRICT = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)
