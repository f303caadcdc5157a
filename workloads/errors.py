"""The errors of this folder.

WorkloadError
├── CellsError        an entry of a suite's `cells` is wrong; `number` is its index
└── UserCodeError     the user's code fails
"""

from difflib import get_close_matches

TRY = "\nTry: "  # between a message and what a user may try next
MOST_NAMES = 30  # allowed names that a message lists; of a longer list it has the five nearest


class WorkloadError(Exception):
    """A user's mistake in a name or suite; the text has the value found and the values allowed."""


class CellsError(WorkloadError):
    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.number = number


class UserCodeError(WorkloadError):
    """An error that the user's module or model raised."""


def unknown(kind: str, name: str, allowed: list[str]) -> WorkloadError:
    if len(allowed) > MOST_NAMES:
        like = get_close_matches(name, allowed, n=5, cutoff=0.3) or sorted(allowed)[:5]
        listed = f"{len(allowed)} names, like {', '.join(like)}"
    else:
        listed = ", ".join(sorted(allowed))
    near = get_close_matches(name, allowed)
    guess = f" (did you mean {near[0]}?)" if near else ""
    return WorkloadError(f"unknown {kind} {name!r}{guess}; allowed: {listed}")
