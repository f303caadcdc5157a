"""The errors of this folder.

WorkloadError
├── CellsError        one of a suite's cells is wrong: its number is known
└── UserCodeError     the user's code fails
"""

from difflib import get_close_matches

TRY = "\nTry: "  # between a message and what a user may try next
MOST_NAMES = 30  # that are listed; of more, those like what was found


class WorkloadError(Exception):
    """A user's mistake in naming or describing what to time: says what was found and what is allowed."""


class CellsError(WorkloadError):
    """The same of one of a suite's `cells`, by its number."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.number = number


class UserCodeError(WorkloadError):
    """Says what the user's module or model raised."""


def unknown(kind: str, found: str, allowed: list[str]) -> WorkloadError:
    if len(allowed) > MOST_NAMES:
        like = get_close_matches(found, allowed, n=5, cutoff=0.3) or sorted(allowed)[:5]
        listed = f"{len(allowed)} names, like {', '.join(like)}"
    else:
        listed = ", ".join(sorted(allowed))
    near = get_close_matches(found, allowed, n=1)
    guess = f" (did you mean {near[0]}?)" if near else ""
    return WorkloadError(f"unknown {kind} {found!r}{guess}; allowed: {listed}")
