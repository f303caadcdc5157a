"""A mistake of ours must not become one of the user's script."""

from contextlib import AbstractContextManager
from types import TracebackType


class OwnErrors(AbstractContextManager["OwnErrors"]):
    """As a context, it keeps the errors of its block to itself and remembers what they said."""

    def __init__(self) -> None:
        self.texts: set[str] = set()

    def __exit__(
        self, _: object, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        line = traceback.tb_lineno if traceback is not None else 0
        self.texts.add(f"{type(error).__name__} at line {line}: {error}")
        return True
