"""What is done again and again beside something else."""

import threading

import pytest

from cudnn_sweep.orchestrator.showing.display import now_and_then


def test_it_is_done_until_the_block_ends_and_its_thread_with_it() -> None:
    calls: list[int] = []
    thrice, before = threading.Event(), threading.active_count()

    def call() -> None:
        calls.append(threading.get_ident())
        if len(calls) == 3:
            thrice.set()

    with now_and_then(call, every_s=0.001):
        assert thrice.wait(timeout=100)
    assert threading.active_count() == before
    assert {*calls} != {threading.get_ident()} and len({*calls}) == 1


def test_an_error_in_the_block_comes_through_and_ends_it_too() -> None:
    before = threading.active_count()
    with pytest.raises(KeyError), now_and_then(lambda: None, every_s=60.0):
        raise KeyError
    assert threading.active_count() == before, "it does not wait for its next turn"
