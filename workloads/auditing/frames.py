"""Whose line of code did it, and tracebacks without our own frames."""

import os
import sys
import sysconfig
from types import FrameType, TracebackType

from cudnn_sweep.workloads.auditing.findings import Place

OURS = os.path.dirname(__file__) + os.sep
GENERATED = ("<frozen ", "<eval_with_key>")
"""Names of files of Python's own frozen modules, and of code that torch generates."""
PASSING_ON = {f"{name}.py" for name in ("contextlib", "os", "_collections_abc", "functools")}
"""Files of Python's library that stand between the writer and what is written."""
LIBRARY = sysconfig.get_path("stdlib")


def _installed() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple({sysconfig.get_path(name) + os.sep for name in names})


INSTALLED = _installed()


class Frames:
    """Looks up the stack; `torch` is the folder of that package, once it is imported."""

    def __init__(self) -> None:
        self.torch = "\0"

    def writer(self) -> tuple[Place, Place | None] | None:
        """The innermost place outside of torch, and the innermost of the user's own code in another file.
        None where torch.compile sets flags back that it saved.
        """
        frame: FrameType | None = sys._getframe(1)
        innermost_of_torch: FrameType | None = None
        while frame is not None and self._passes_on(frame.f_code.co_filename):
            if frame.f_code.co_filename.startswith(self.torch):
                if f"{os.sep}_dynamo{os.sep}" in frame.f_code.co_filename:
                    return None
                innermost_of_torch = innermost_of_torch or frame
            frame = frame.f_back
        found = frame or innermost_of_torch
        if found is None:
            return None
        own: FrameType | None = found
        while own is not None and not _is_own(own.f_code.co_filename, besides=found):
            own = own.f_back
        return _place(found), None if own is None else _place(own)

    def _passes_on(self, file: str) -> bool:
        if file.startswith((self.torch, OURS, *GENERATED)):
            return True
        folder, name = os.path.split(file)
        return folder == LIBRARY and name in PASSING_ON


def _is_own(file: str, besides: FrameType) -> bool:
    return file != besides.f_code.co_filename and not file.startswith((*INSTALLED, OURS, "<"))


def _place(frame: FrameType) -> Place:
    return Place(
        file=frame.f_code.co_filename, line=frame.f_lineno, function=frame.f_code.co_qualname
    )


def without_ours(error: BaseException) -> None:
    """Takes our frames out of its traceback, and out of those of the errors that led to it."""
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        each = left.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        each.__traceback__ = _stripped(each.__traceback__)
        left += [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            left += each.exceptions


def _stripped(traceback: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith(OURS):
            kept.append(traceback)
        traceback = traceback.tb_next
    for each, following in zip(kept, [*kept[1:], None], strict=False):
        each.tb_next = following
    return kept[0] if kept else None
