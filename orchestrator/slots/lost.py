"""Whether something that a launch needs on its Ray is gone: Tune would wait for it, or try in vain."""

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

import ray
from ray import tune

# A node that Ray gave up starts again as another one, which this launch was not made for. But what ran
# behind a cut cable may still bring its record when the cable is plugged in again.
GONE_S = 300.0
LOOKS = 60  # at the cluster, in that time
LOOK_S = 1.0  # between two looks at an actor


class NodeLossWatch:
    """Whether all of a sweep's nodes are gone, and for so long that it ends."""

    def __init__(
        self,
        nodes: Mapping[str, str],
        alive: Callable[[], set[str]],
        *,
        patience_s: float = GONE_S,
    ) -> None:
        """`nodes`: the sweep's, by id what they are called; `alive`: the ids of those that are there."""
        self._nodes = nodes
        self._alive = alive
        self._patience_s = patience_s
        self._next_look = self._seen = monotonic()
        self.reason: str | None = None
        """Why the sweep ends."""

    def look(self) -> bool:
        """Whether it ends. May be asked at any rate."""
        now = monotonic()
        if self.reason is None and now >= self._next_look:
            self._next_look = now + self._patience_s / LOOKS
            if not self._alive().isdisjoint(self._nodes):
                self._seen = now
            elif now - self._seen >= self._patience_s:
                self.reason = (
                    f"for {self._patience_s / 60:g} minutes Ray has had none of the sweep's nodes: "
                    f"{', '.join(self._nodes.values())}; a node that starts again counts as a new one: "
                    "launch again to resume with the nodes that are up"
                )
        return self.reason is not None


class ActorGone:
    """Whether an actor is gone: it answers `ask` at once while it lives."""

    def __init__(self, name: str, ask: Callable[[], Any]) -> None:
        self._name = name
        self._ask = ask
        self._next_look = monotonic()
        self._asked: Any | None = None
        self.reason: str | None = None

    def look(self) -> bool:
        """Whether it is gone. May be asked at any rate; does not wait."""
        if self.reason is not None:
            return True
        if self._asked is None and monotonic() >= self._next_look:
            self._asked = self._ask()
        if self._asked is not None and ray.wait([self._asked], timeout=0)[0]:
            self._next_look = monotonic() + LOOK_S
            asked, self._asked = self._asked, None
            try:
                ray.get(asked)
            except ray.exceptions.RayError:
                self.reason = f"{self._name} is gone"
        return self.reason is not None


class UntilLost(tune.Stopper):
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
