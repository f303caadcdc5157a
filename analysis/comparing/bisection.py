"""Which version to try next between a good and a bad one: only what the versions known say."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from packaging.version import InvalidVersion, Version

from cudnn_sweep.analysis.errors import QueryError

Software: TypeAlias = Mapping[str, str]  # part to version


def next_to_try(
    good: Software, bad: Software, known: Sequence[Software], candidates: Sequence[str]
) -> str | None:
    """A line for the user; None where no part of the software differs.

    `known`: softwares that have records. `candidates`: versions that the user can install, of the one
    part that differs.
    """
    parts = [part for part in good if good[part] != bad[part]]
    if len(parts) > 1:
        return _part_to_hold(parts, good, bad, known)
    if not parts:
        return None
    (part,) = parts
    alike = [
        software[part]
        for software in known
        if all(software[other] == good[other] for other in good if other != part)
    ]
    return _midpoint(part, good[part], bad[part], alike, candidates)


def _part_to_hold(
    parts: Sequence[str], good: Software, bad: Software, known: Sequence[Software]
) -> str:
    """A software between the two that has records already, else half of what differs changed."""
    told = ", ".join(parts)
    between = [
        (abs(2 * changed - len(parts)), software)
        for software in known
        if all(software[part] in (good[part], bad[part]) for part in good)
        if 0 < (changed := sum(software[part] == bad[part] for part in parts)) < len(parts)
    ]
    if between:
        _, nearest = min(between, key=lambda each: each[0])
        has = ", ".join(f"{part} {nearest[part]}" for part in parts)
        return f"{told} differ. There are records with {has}: compare each side with those."
    change, hold = parts[: (len(parts) + 1) // 2], parts[(len(parts) + 1) // 2 :]
    return (
        f"{told} differ. Try {_versions(change, bad)} with {_versions(hold, good)} unchanged, to "
        "see which of them it is."
    )


def _versions(parts: Sequence[str], software: Software) -> str:
    return ", ".join(f"{part} {software[part]}" for part in parts)


def _midpoint(
    part: str, good: str, bad: str, stored: Sequence[str], candidates: Sequence[str]
) -> str:
    low, high = _order(good), _order(bad)
    step = f"{part} {good} → {bad}"
    between: dict[Version, str] = {}
    if low is not None and high is not None:
        low, high = sorted((low, high))
        for version in (*candidates, *stored):  # what is stored is written as it was installed
            order = _order(version)
            if order is not None and low < order < high:
                between[order] = version
    if not between:
        return f"{step}: no version between them is known; name some by --candidates."
    ordered = [between[order] for order in sorted(between)]
    middle = ordered[len(ordered) // 2]
    there = "its records are here" if middle in stored else "not measured yet"
    return f"{step}: try {part} {middle} next ({there}), the middle of {', '.join(ordered)}."


def read_candidates(text: str) -> list[str]:
    """Versions with commas between them. Raises QueryError for what is no version."""
    versions = [version for each in text.split(",") if (version := each.strip())]
    for version in versions:
        if _order(version) is None:
            raise QueryError(f"--candidates: found {version!r}, allowed are versions as 2.10.0")
    return versions


def _order(version: str) -> Version | None:
    """Without what follows a plus: 2.11.0+cu130 is 2.11.0. None for what is no version, as `none`."""
    try:
        return Version(Version(version).public)
    except InvalidVersion:
        return None
