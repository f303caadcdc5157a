"""An actor that is there but does not answer is lost, too."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import ray as ray_itself

from cudnn_sweep.orchestrator.slots.lost import LOOK_S, NO_ANSWER_S, ActorGone

ACTOR = object()


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    fake = SimpleNamespace(answers=True, killed=[])
    monkeypatch.setattr(ray_itself, "wait", lambda asked, timeout: (asked * fake.answers, []))
    monkeypatch.setattr(ray_itself, "get", lambda asked: None)
    monkeypatch.setattr(ray_itself, "kill", fake.killed.append)
    return fake


def _looks(watch: ActorGone, tick: Callable[[float], None], count: int, every_s: float) -> bool:
    for _ in range(count):
        tick(every_s)
        watch.look()
    return watch.look()


def test_no_answer_for_so_long_ends_the_actor_but_not_while_it_starts(ray: SimpleNamespace) -> None:
    now = 0.0

    def tick(seconds: float) -> None:
        nonlocal now
        now += seconds

    watch = ActorGone("the recorder", ACTOR, lambda actor: actor, now=lambda: now)
    ray.answers = False
    looks = round(NO_ANSWER_S / LOOK_S) + 2
    assert not _looks(watch, tick, looks, LOOK_S), "it is still starting"
    ray.answers = True
    assert not _looks(watch, tick, 1, LOOK_S)
    ray.answers = False
    assert not _looks(watch, tick, 3, NO_ANSWER_S), "this process was stopped meanwhile"
    assert ray.killed == []
    assert _looks(watch, tick, looks, LOOK_S)
    assert ray.killed == [ACTOR]
    assert watch.reason == f"no answer of the recorder for {NO_ANSWER_S:g} s"
