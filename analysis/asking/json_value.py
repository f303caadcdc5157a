"""A value as JSON has it."""

import math
from datetime import date, datetime


def json_value(value: object) -> object:
    """Times as ISO 8601; null for what is no finite number; text for what JSON has no form for."""
    if isinstance(value, dict):
        return {str(key): json_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(inner) for inner in value]
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)
