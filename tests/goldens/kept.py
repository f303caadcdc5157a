"""The kept files, and how what is found differs from them, in words."""

from __future__ import annotations

import json
import lzma
import math
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path
from typing import Any

KEPT = Path(__file__).parent / "kept"
DIGITS = 9  # of a number that is kept
SAME = 1e-8  # relative: CPUs and threads differ in the last digits of a double
SAME_IN_REPORTS = 2e-5  # the report itself rounds to six digits, one way or the other
NOTHING = 1e-12  # absolute
SHOWN = 6  # differences of one golden


def names() -> set[str]:
    """Of all kept goldens."""
    return {str(file.relative_to(KEPT)) for file in KEPT.rglob("*") if file.is_file()}


def read(name: str) -> Any:
    content = (KEPT / name).read_bytes()
    if name.endswith(".xz"):
        content = lzma.decompress(content)
    return json.loads(content) if ".json" in name else content.decode()


def write(name: str, found: Any) -> None:
    file = KEPT / name
    file.parent.mkdir(parents=True, exist_ok=True)
    if name.endswith(".xz"):
        file.write_bytes(lzma.compress(json.dumps(_rounded(found)).encode(), preset=9))
    elif name.endswith(".json"):
        file.write_text(json.dumps(_rounded(found), indent=1, ensure_ascii=False) + "\n")
    else:
        file.write_text(found)


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return float(f"{value:.{DIGITS}g}")
        case list():
            return [_rounded(each) for each in value]
        case dict():
            return {key: _rounded(each) for key, each in value.items()}
    return value


def differences(name: str, found: Any) -> list[str]:
    """How `found` differs from what is kept, the first few; none where it does not."""
    if name not in names():
        return [f"{name} is new"]
    before = read(name)
    if name.startswith(("answers/", "plans")):  # in CI of fewer stores and devices than are kept
        before = {key: each for key, each in before.items() if key in found}
    elif name.startswith("nights/"):  # and of fewer nights
        before = before[: len(found)]
    return differences_from(before, name, found)


def differences_from(before: Any, name: str, found: Any) -> list[str]:
    """How `found` differs from a part of the golden `name`, the first few."""
    same = SAME_IN_REPORTS if name.startswith("reports/") else SAME
    told = [f"{name}{each}" for each in _differences("", before, found, same)]
    more = [f"{name}: {len(told) - SHOWN} more"] if len(told) > SHOWN else []
    return told[:SHOWN] + more


def _differences(where: str, before: Any, found: Any, same: float) -> Iterator[str]:
    if isinstance(before, str) and isinstance(found, str) and "\n" in before + found:
        yield from _of_texts(where, before, found)
    elif _are_rows(before) and _are_rows(found) and (before or found):
        yield from _of_rows(where, before, found, same)
    elif isinstance(before, dict) and isinstance(found, dict):
        yield from (f"{where} lacks {key}" for key in before.keys() - found.keys())
        yield from (f"{where} has {key}, which is new" for key in found.keys() - before.keys())
        for key in before.keys() & found.keys():
            yield from _differences(f"{where} {key}", before[key], found[key], same)
    elif isinstance(before, list) and isinstance(found, list) and len(before) == len(found):
        for at, (one, other) in enumerate(zip(before, found, strict=True)):
            yield from _differences(f"{where}[{at}]", one, other, same)
    elif not _is_same(before, found, same):
        yield f"{where}: {_short(before)} → {_short(found)}"


def _are_rows(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def _of_rows(
    where: str, before: list[dict[str, Any]], found: list[dict[str, Any]], same: float
) -> Iterator[str]:
    """Of a table: its columns, the number of its rows, and each column's values."""
    if len(before) != len(found):
        yield f"{where}: {len(before)} → {len(found)} rows"
        return
    columns, others = list(before[0]), list(found[0])
    yield from (f"{where}: column {name} is gone" for name in columns if name not in others)
    yield from (f"{where}: column {name} is new" for name in others if name not in columns)
    shared = [name for name in columns if name in others]
    if shared != [name for name in others if name in columns]:
        yield f"{where}: columns are in another order"
    for name in shared:
        pairs = [(one.get(name), other.get(name)) for one, other in zip(before, found, strict=True)]
        first = [next(_differences("", *pair, same), None) for pair in pairs]
        off = [f"row {at}{said}" for at, said in enumerate(first) if said is not None]
        if off:
            count = f"{len(off)} of {len(pairs)} rows"
            yield f"{where}: column {name} differs in {count}, first in {off[0]}"


def _of_texts(where: str, before: str, found: str) -> Iterator[str]:
    lines = unified_diff(before.splitlines(), found.splitlines(), n=0, lineterm="")
    for line in lines:
        if not line.startswith(("---", "+++", "@@")):
            yield f"{where}: {line}"


def _is_same(before: Any, found: Any, same: float) -> bool:
    numbers = [each for each in (before, found) if isinstance(each, float | int)]
    if len(numbers) == 2 and any(isinstance(each, float) for each in numbers):
        return math.isclose(*numbers, rel_tol=same, abs_tol=NOTHING)
    return bool(before == found) and type(before) is type(found)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."
