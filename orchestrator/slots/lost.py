"""Whether something that a launch needs on its Ray is gone: Tune would wait for it, or try in vain."""

from collections.abc import Callable
from time import monotonic
from typing import Any

import ray
from ray import tune

from cudnn_sweep.orchestrator.slots.node_loss_watch import NodeLossWatch

LOOK_S = 1.0


class ActorGone:
    """Asks an actor what it answers at once while it lives, whatever it does meanwhile."""

    def __init__(
        self, name: str, ask: Callable[[], Any], now: Callable[[], float] = monotonic
    ) -> None:
        self._name = name
        self._ask = ask
        self._now = now
        self._next_look = now()
        self._asked: Any | None = None
        self.reason: str | None = None

    def look(self) -> bool:
        """Whether it is gone. May be asked at any rate; does not wait."""
        if self.reason is not None:
            return True
        if self._asked is None and self._now() >= self._next_look:
            self._asked = self._ask()
        if self._asked is not None and ray.wait([self._asked], timeout=0)[0]:
            self._next_look = self._now() + LOOK_S
            asked, self._asked = self._asked, None
            try:
                ray.get(asked)
            except ray.exceptions.RayError:
                self.reason = f"{self._name} is gone"
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
