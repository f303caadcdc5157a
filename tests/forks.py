"""What a fork of the tests' process returns: what it changes in torch or in the process ends with it."""

import os
import pickle
import traceback
from collections.abc import Callable
from typing import NoReturn, TypeVar

import torch

T = TypeVar("T")


def in_a_fork(do: Callable[[], T]) -> T:
    """Return what `do` returns there, which can be pickled; its error fails the test."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        _answer(do, writes)
    os.close(writes)
    with os.fdopen(reads, "rb") as stream:
        answer = stream.read()
    os.waitpid(child, 0)
    assert answer, "the fork ended before it answered"
    found, failure = pickle.loads(answer)  # our own fork's
    assert failure is None, failure
    return found  # type: ignore[no-any-return]


def _answer(do: Callable[[], T], writes: int) -> NoReturn:
    try:
        torch.set_num_threads(1)  # other threads of the tests' process are not in its fork
        try:
            answer: tuple[T | None, str | None] = do(), None
        except BaseException:  # noqa: BLE001  # the test raises it
            answer = None, traceback.format_exc()
        with os.fdopen(writes, "wb") as stream:
            stream.write(pickle.dumps(answer))
    finally:
        os._exit(0)
