"""Which version to try next between a good and a bad one: only what the versions known say."""

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

Software: TypeAlias = Mapping[str, str]  # part to version

RANKS = {"dev": 0, "post": 3}
PRE_RELEASE, FINAL = 1, 2


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
        f"{told} differ. Try {_versions(change, bad)} with {_versions(hold, good)} held still: that "
        "tells which of them it is."
    )


def _versions(parts: Sequence[str], software: Software) -> str:
    return ", ".join(f"{part} {software[part]}" for part in parts)


def _midpoint(
    part: str, good: str, bad: str, stored: Sequence[str], candidates: Sequence[str]
) -> str:
    low, high = sorted((version_order(good), version_order(bad)))
    between = {
        version_order(version): version
        for version in (*candidates, *stored)  # what is stored is written as it was installed
        if low < version_order(version) < high
    }
    step = f"{part} {good} → {bad}"
    if not between:
        return f"{step}: no version between them is known; name some by --candidates."
    ordered = [between[key] for key in sorted(between)]
    middle = ordered[len(ordered) // 2]
    there = "its records are here" if middle in stored else "not measured yet"
    return f"{step}: try {part} {middle} next ({there}), the middle of {', '.join(ordered)}."


def version_order(version: str) -> tuple[tuple[int, ...], int, tuple[int, ...]]:
    """By its numbers; 2.11.0.dev3 and then 2.11.0rc1 come before 2.11.0, +cu130 does not count."""
    public = version.partition("+")[0]
    release = re.match(r"[\d.]*", public)
    assert release is not None
    rest = public[release.end() :]
    rank = next((rank for kind, rank in RANKS.items() if rest.startswith(kind)), PRE_RELEASE)
    return _numbers(release[0]), rank if rest else FINAL, _numbers(rest)


def _numbers(text: str) -> tuple[int, ...]:
    """Zeros at the end say nothing: 2.11 is 2.11.0."""
    found = [int(number) for number in re.findall(r"\d+", text)]
    while found and found[-1] == 0:
        found.pop()
    return tuple(found)
