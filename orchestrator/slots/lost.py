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
        self, nodes: Mapping[str, str], alive: Callable[[], set[str]], patience_s: float
    ) -> None:
        """`nodes`: the sweep's, by id what they are called; `alive`: the ids of those that are there."""
        self._nodes = nodes
        self._alive = alive
        self._patience_s = patience_s
        self._next_look = self._seen = monotonic()

    def look(self) -> str | None:
        """Why it ends. May be asked at any rate."""
        now = monotonic()
        if now >= self._next_look:
            self._next_look = now + self._patience_s / LOOKS
            if not self._alive().isdisjoint(self._nodes):
                self._seen = now
            elif now - self._seen >= self._patience_s:
                return (
                    f"for {self._patience_s / 60:g} minutes Ray has had none of the sweep's nodes: "
                    f"{', '.join(self._nodes.values())}; a node that starts again counts as a new one: "
                    "launch again to resume with the nodes that are up"
                )
        return None


class UntilLost(tune.Stopper):
    """Ends a run once its nodes or its recorder are gone."""

    def __init__(self, nodes: NodeLossWatch, recorder: Any) -> None:
        self._nodes = nodes
        self._recorder = recorder
        self._next_look = monotonic()
        self._answer: Any | None = None
        self.reason: str | None = None
        """Why it ends."""

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        """Asked by Tune many times a second; does not wait."""
        self.reason = self.reason or self._recorder_gone() or self._nodes.look()
        return self.reason is not None

    def _recorder_gone(self) -> str | None:
        """It answers at once while it lives."""
        if self._answer is None and monotonic() >= self._next_look:
            self._answer = self._recorder.wanted.remote([])
        if self._answer is not None and ray.wait([self._answer], timeout=0)[0]:
            self._next_look = monotonic() + LOOK_S
            answer, self._answer = self._answer, None
            try:
                ray.get(answer)
            except ray.exceptions.RayError:
                return "the recorder is gone"
        return None
