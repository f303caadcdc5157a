"""The errors of this folder.

WorkloadError
├── CellsError        mistake in a suite's `cells`; `number` is the index of the entry
└── UserCodeError     exception in the user's code
"""

from difflib import get_close_matches

TRY = "\nTry: "  # separates a message from a suggestion
MOST_NAMES = 30  # longest list of allowed names that a message shows in full


class WorkloadError(Exception):
    """A user's mistake in a name, suite or model."""


class CellsError(WorkloadError):
    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.number = number


class UserCodeError(WorkloadError):
    """An exception in the user's module or model."""


def unknown(kind: str, name: str, allowed: list[str]) -> WorkloadError:
    if len(allowed) > MOST_NAMES:
        like = get_close_matches(name, allowed, n=5, cutoff=0.3) or sorted(allowed)[:5]
        listed = f"{len(allowed)} names, like {', '.join(like)}"
    else:
        listed = ", ".join(sorted(allowed))
    near = get_close_matches(name, allowed)
    guess = f" (did you mean {near[0]}?)" if near else ""
    return WorkloadError(f"unknown {kind} {name!r}{guess}; allowed: {listed}")
