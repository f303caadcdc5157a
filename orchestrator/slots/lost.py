"""Whether something that a launch needs on its Ray is gone: Tune would wait for it, or try in vain."""

from collections.abc import Callable
from time import monotonic
from typing import Any

import ray
from ray import tune

from cudnn_sweep.orchestrator.process import stuck
from cudnn_sweep.orchestrator.slots.node_loss_watch import NodeLossWatch

LOOK_S = 1.0
# On this machine whoever stands by finds it before, and can say more.
NO_ANSWER_S = stuck.NO_ANSWER_S + 2 * stuck.LOOK_S


class ActorGone:
    """Asks an actor what it answers at once while it lives, whatever it does meanwhile. One that does not is
    ended: nobody who asks it is to wait for ever.
    """

    def __init__(
        self,
        name: str,
        actor: Any,
        ask: Callable[[Any], Any],
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._name = name
        self._actor = actor
        self._ask = ask
        self._now = now
        self._next_look = self._looked_at = now()
        self._asked: Any | None = None
        self._silent_s: float | None = None  # it may take long to start
        self.reason: str | None = None

    def look(self) -> bool:
        """Whether it is gone. May be asked at any rate; does not wait."""
        if self.reason is not None:
            return True
        if self._asked is None and self._now() >= self._next_look:
            self._asked = self._ask(self._actor)
        if self._asked is not None and ray.wait([self._asked], timeout=0)[0]:
            self._next_look = self._now() + LOOK_S
            asked, self._asked = self._asked, None
            self._silent_s = 0.0
            try:
                ray.get(asked)
            except ray.exceptions.RayError:
                self.reason = f"{self._name} is gone"
        elif self._silent_s is not None:
            # Where this process itself was stopped, so was the clock: the answer is there, but unread.
            self._silent_s += min(self._now() - self._looked_at, LOOK_S)
            if self._silent_s > NO_ANSWER_S:
                self.reason = f"no answer of {self._name} for {NO_ANSWER_S:g} s"
                ray.kill(self._actor)
        self._looked_at = self._now()
        return self.reason is not None


class UntilLost(tune.Stopper):
    """Ends Tune's run."""

    def __init__(self, *watched: NodeLossWatch | ActorGone) -> None:
        self._watched = watched

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        """Asked by Tune many times a second."""
        return any(each.look() for each in self._watched)

    @property
    def reason(self) -> str | None:
        return next((each.reason for each in self._watched if each.reason), None)
