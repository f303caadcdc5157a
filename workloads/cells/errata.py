"""Reads and writes errata: rules by which cuDNN's frontend bans plans.

- `ConvFwd:67` bans all plans of engine 67 for forward convolutions.
- `ConvFwd:67:k2=16` bans only the plans of this engine that have the knob `k2=16`.
- `pin ConvFwd:1` bans all engines for forward convolutions except engine 1.
- `ConvFwd:67@91900` applies to version 91900 of cuDNN only.
- `ConvFwd:67@91900-91902` applies to the versions from 91900 to below 91902.

A plan's tag is its name in the frontend's log, such as `ConvFwd_eng67_k2=16_k13=0`.
PyTorch reads rules from the file named in CUDNN_ERRATA_JSON_FILE. The file replaces PyTorch's own
rules (aten/src/ATen/native/cudnn/Conv_v8.cpp), so we copy these into it. Plans are matched as in
cudnn_frontend_EngineFallbackList.h.
"""

import json
import mmap
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from cudnn_sweep.workloads.hashes import checksum

ERRATA_FILE = "CUDNN_ERRATA_JSON_FILE"
OPERATIONS = ("ConvFwd", "ConvBwdData", "ConvBwdFilter")
ENGINES = 256  # more than any operation of cuDNN 9 has
PYTORCHS = "torch "  # prefix of the ids of PyTorch's own rules
MOST_BYTES = 2**20
CHECKSUM = "crc32"
"""Key of the checksum in a file that `sweep freeze` wrote. cuDNN ignores it."""
ANEW = "make a new file with `sweep freeze`"
RULE = re.compile(
    rf"(?P<pin>pin )?(?P<operation>{'|'.join(OPERATIONS)}):(?P<engine>\d{{1,3}})"
    r"(?P<knobs>(:\w+=-?\d+)*)(@(?P<start>\d+)(?P<range>-(?P<end>\d*))?)?"
)
ALLOWED = (
    "rules such as `ConvFwd:5`, `ConvBwdData:67:k2=16` or `pin ConvBwdFilter:1`, or the path of a "
    f".json file; operations are {', '.join(OPERATIONS)}; engine numbers are below {ENGINES}"
)
TAG = re.compile(r"(?P<operation>\w+?)_eng(?P<engine>\d+)(?P<knobs>(_\w+?=-?\d+)*)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    operation: str
    engine: int
    knobs: tuple[str, ...] = ()
    pin: bool = False
    start: int = 0
    """First version of cuDNN to which the rule applies, such as 91900."""
    end: int | None = None
    """First version of cuDNN to which the rule no longer applies, or None."""

    @classmethod
    def of(cls, text: str) -> Self:
        match = RULE.fullmatch(text.strip())
        if match is None or (match["pin"] and match["knobs"]) or int(match["engine"]) >= ENGINES:
            raise ValueError(f"found {text.strip()[:60]!r}, allowed: {ALLOWED}")
        start = int(match["start"] or 0)
        end = match["end"] if match["range"] else match["start"] and str(start + 1)
        return cls(
            operation=match["operation"],
            engine=int(match["engine"]),
            knobs=tuple(match["knobs"].split(":")[1:]),
            pin=bool(match["pin"]),
            start=start,
            end=int(end) if end else None,
        )

    @classmethod
    def against(cls, tag: str, version: int) -> Self:
        """Return the narrowest rule that bans the plan with this tag in this version of cuDNN."""
        match = TAG.fullmatch(tag)
        assert match is not None, tag
        return cls(
            operation=match["operation"],
            engine=int(match["engine"]),
            knobs=tuple(match["knobs"].split("_")[1:]),
            start=version,
            end=version + 1,
        )

    def bans(self, tag: str, version: int) -> bool:
        plan = TAG.match(tag)
        if plan is None or plan["operation"] != self.operation or version < self.start:
            return False
        if self.end is not None and version >= self.end:
            return False
        if self.pin:
            return int(plan["engine"]) != self.engine
        return int(plan["engine"]) == self.engine and all(knob in tag for knob in self.knobs)

    def __str__(self) -> str:
        pin = "pin " if self.pin else ""
        text = ":".join((f"{pin}{self.operation}:{self.engine}", *self.knobs))
        if self.end is not None:
            only = self.end == self.start + 1
            return f"{text}@{self.start}" + ("" if only else f"-{self.end}")
        return f"{text}@{self.start}-" if self.start else text

    def entries(self) -> list[dict[str, Any]]:
        """Return the rule's entries for a JSON file. A pin has one entry for each banned engine."""
        engines = [engine for engine in range(ENGINES) if engine != self.engine]
        return [
            {
                "rule_id": str(self),
                "operation": self.operation,
                "engine": engine,
                "knob": list(self.knobs),
                "cudnn_version_start": self.start,
                "cudnn_version_end": -1 if self.end is None else self.end,
            }
            for engine in (engines if self.pin else [self.engine])
        ]


def rules_of(text: str | None) -> tuple[Rule, ...]:
    return tuple(map(Rule.of, text.split(","))) if text else ()


def text_of(rules: Iterable[Rule]) -> str:
    return ", ".join(sorted({str(rule) for rule in rules}))


def read_errata(given: object, folder: Path | None) -> object:
    """Convert a text, a list of texts or the name of a JSON file in `folder` to one text of rules.

    Other values are returned unchanged. Raises ValueError if a rule or the file is invalid.
    """
    if isinstance(given, str) and folder is not None and given.endswith(".json"):
        return text_of(read_file(folder / given))
    if isinstance(given, str):
        return text_of(rules_of(given))
    if isinstance(given, list | tuple) and all(isinstance(text, str) for text in given):
        return text_of(map(Rule.of, given))
    return given


def read_file(file: Path) -> set[Rule]:
    """Read the rules of a JSON file, without PyTorch's own rules. Raises ValueError."""
    return read_kept(file)[0]


def read_kept(file: Path) -> tuple[set[Rule], dict[str, Any]]:
    """Read the rules of a JSON file, and all its data except the checksum. Raises ValueError."""
    try:
        with file.open("rb") as opened:
            whole = json.loads(opened.read(MOST_BYTES).decode("utf-8-sig"))
        rules = _of_json(whole["rules"])
        crc32 = whole.pop(CHECKSUM, None)
    except OSError as error:
        raise ValueError(f"{file}: {error.strerror}") from None
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        fault = f"missing {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(
            f"{file} is not an errata file (a file below 1 MiB with a list `rules`): {fault[:300]}"
        ) from None
    if crc32 not in (None, checksum(whole)):
        raise ValueError(f"{file} has a wrong checksum because it is damaged or was edited; {ANEW}")
    return rules, whole


def _of_json(entries: list[dict[str, Any]]) -> set[Rule]:
    """Return the rules without PyTorch's own. Raises ValueError if an entry contradicts its id."""
    rules: dict[str, set[Rule]] = {}
    for entry in entries:
        name = str(entry.get("rule_id", ""))
        # A torch without CUDA has no rules to compare with, so only the prefix is checked.
        is_own = name.startswith(PYTORCHS) and (not pytorchs_own() or entry in pytorchs_own())
        if not is_own:
            rules.setdefault(name, set()).add(_of_entry(entry))
    for name in filter(RULE.fullmatch, rules):
        rule = Rule.of(name)
        if rules[name] != set(map(_of_entry, rule.entries())):
            raise ValueError(f"the fields of rule {name} contradict its name; {ANEW}")
        rules[name] = {rule}
    return set().union(*rules.values())


def _of_entry(entry: dict[str, Any]) -> Rule:
    start, end = entry.get("cudnn_version_start", 0), entry.get("cudnn_version_end", -1)
    plans = ":".join(map(str, (entry["operation"], entry["engine"], *entry.get("knob", []))))
    return Rule.of(plans + f"@{start}-" + (str(end) if end >= 0 else ""))


def as_json(rules: Iterable[Rule], indent: int | None = None, **beside: object) -> str:
    """Return `rules`, PyTorch's own rules and the items of `beside` as one JSON text."""
    entries = [entry for rule in rules for entry in rule.entries()]
    whole = {"version": 1, **beside, "rules": [*pytorchs_own(), *entries]}
    if beside:
        whole = {CHECKSUM: checksum(whole), **whole}
    return json.dumps(whole, indent=indent)


@cache
def pytorchs_own() -> list[dict[str, Any]]:
    """Return the rules in the installed torch. The list is empty if torch has no CUDA."""
    torch = find_spec("torch")
    library = Path(torch.origin or "").parent / "lib" / "libtorch_cuda.so" if torch else None
    if library is None or not library.exists():
        return []
    with library.open("rb") as opened:
        text = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        if (place := text.find(b'"rule_id"')) < 0:
            return []
        rules = json.loads(text[text.rfind(b"\0", 0, place) + 1 : text.find(b"\0", place)])["rules"]
    return [{**entry, "rule_id": PYTORCHS + str(entry["rule_id"])} for entry in rules]


def use_errata(text: str | None) -> None:
    """Apply PyTorch's own rules and those in `text`. Call this before the first plan is built."""
    os.environ.pop(ERRATA_FILE, None)
    if text is not None:
        file = os.memfd_create("errata.json")  # exists only as long as the process
        os.write(file, as_json(rules_of(text)).encode())
        os.environ[ERRATA_FILE] = f"/proc/self/fd/{file}"


def errata_in_force() -> str | None:
    file = os.environ.get(ERRATA_FILE)
    return None if file is None else text_of(read_file(Path(file)))
