"""Check: one thing that was looked at, what was found, and what to do about it."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warning", "problem"]
SEVERITY: tuple[State, ...] = ("ok", "warning", "problem")


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """A problem keeps a sweep from running or its verdicts from being believed; a warning may not."""

    name: str
    state: State = "ok"
    found: str
    advice: str = ""

    def __post_init__(self) -> None:
        assert (self.state == "ok") == (not self.advice), f"{self.name}: advice where it is needed"


def worst(checks: list[Check]) -> State:
    return max((check.state for check in checks), key=SEVERITY.index, default="ok")
