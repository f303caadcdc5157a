"""How strictly a model is read: types as they are written, no unknown keys, finite numbers."""

from pydantic import ConfigDict

STRICT = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)
