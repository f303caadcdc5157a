"""Values of which a test names only what it is about."""

from typing import Any, TypeVar, get_origin, get_type_hints

Made = TypeVar("Made")
EMPTY: dict[object, object] = {
    bool: False,
    int: 0,
    float: 0.0,
    str: "",
    tuple: (),
    dict: {},
    list: [],
}


def blank(kind: type[Made], /, **fields: Any) -> Made:
    """A value of that dataclass: numbers are 0, texts and collections empty, what may be None is None."""
    hints = get_type_hints(kind)
    unnamed = {name: EMPTY.get(get_origin(hint) or hint) for name, hint in hints.items()}
    return kind(**(unnamed | fields))
