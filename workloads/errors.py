"""The one error of this folder."""


class WorkloadError(Exception):
    """A user's mistake in naming or describing what to time: says what was found and what is allowed."""


def unknown(kind: str, found: str, allowed: list[str]) -> WorkloadError:
    return WorkloadError(f"unknown {kind} {found!r}; allowed: {', '.join(sorted(allowed))}")
