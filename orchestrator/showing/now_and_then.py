"""What is done again and again beside something else."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread


@contextmanager
def now_and_then(do: Callable[[], object], *, every_s: float) -> Iterator[None]:
    """Calls `do` in a thread until the block ends."""
    ended = Event()

    def repeat() -> None:
        while not ended.wait(every_s):
            do()

    thread = Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
