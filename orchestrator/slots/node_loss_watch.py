"""Whether all of a sweep's nodes are gone, and for so long that it ends; Tune would wait for ever."""

from collections.abc import Callable, Mapping
from time import monotonic

# A node that Ray gave up starts again as another one, which this launch was not made for. But what ran
# behind a cut cable may still bring its record when the cable is plugged in again.
GONE_S = 300.0
LOOKS = 60  # at the cluster, in that time


class NodeLossWatch:
    def __init__(
        self,
        nodes: Mapping[str, str],
        alive: Callable[[], set[str]],
        *,
        patience_s: float = GONE_S,
        now: Callable[[], float] = monotonic,
    ) -> None:
        """`nodes`: the sweep's, by id what they are called; `alive`: the ids of those that are there."""
        self._nodes = nodes
        self._alive = alive
        self._patience_s = patience_s
        self._now = now
        self._next_look = self._seen = now()
        self.reason: str | None = None
        """Why the sweep ends."""

    def look(self) -> bool:
        """Whether it ends. May be asked at any rate."""
        now = self._now()
        if self.reason is None and now >= self._next_look:
            self._next_look = now + self._patience_s / LOOKS
            if not self._alive().isdisjoint(self._nodes):
                self._seen = now
            elif now - self._seen >= self._patience_s:
                self.reason = self._told()
        return self.reason is not None

    def _told(self) -> str:
        return (
            f"for {self._patience_s / 60:g} minutes Ray has had none of the sweep's nodes: "
            f"{', '.join(self._nodes.values())}; a node that starts again counts as a new one: launch again to "
            "resume with the nodes that are up"
        )
