"""Cells that cannot run: every config raises the same Python exception, twice. Their other trials are not run.

Out of memory, a crash or a hang is a result, of which each trial counts: no cell is given up for those.
"""

import re
from collections import Counter
from collections.abc import Mapping

from cudnn_sweep.analysis.asking.settings import config_name, texts_of
from cudnn_sweep.analysis.storing.schema import RunRecord, settings
from cudnn_sweep.orchestrator.planning.session import Session

TIMES = 2  # of each config: once may be a matter of the shapes that were drawn
RAISED = re.compile(
    r"(?P<type>\w+(?:\.\w+)*): .*\((?P<place>\S+:\d+ in [^)]+)\)(?:;.*)?", re.DOTALL
)


def cause(status: str, message: str) -> tuple[str, str]:
    """What trials that failed alike have in common: an exception's type and place, else the whole message."""
    raised = RAISED.fullmatch(message)
    return status, f"{raised['type']} at {raised['place']}" if raised else message


class Hopeless:
    def __init__(self, configs: int | None) -> None:
        """`configs`: how many a cell has; None: no cell is given up."""
        self._configs = configs
        self._seen: Counter[tuple[str, tuple[str, str], str]] = Counter()
        self._measured: set[str] = set()
        self._cells: dict[str, str] = {}

    @property
    def cells(self) -> Mapping[str, str]:
        """The cells that are given up, by cell_id, each with its message."""
        return self._cells

    def note(self, record: RunRecord) -> None:
        cell_id, message = record.cell_id, record.message or ""
        if record.status == "ok":
            self._measured.add(cell_id)
        if record.status != "error" or self._configs is None or cell_id in self._measured:
            return
        config = config_name(texts_of({name: getattr(record, name) for name in settings()}))
        error = cause(record.status, message)
        self._seen[cell_id, error, config] += 1
        alike = [key for key, times in self._seen.items() if times >= TIMES]
        if sum(key[:2] == (cell_id, error) for key in alike) >= self._configs:
            self._cells[cell_id] = message


def configs_to_fail(session: Session) -> int:
    """How many configs must raise it before a cell is given up: where there are two to compare, two."""
    return max(len(session.plan.configs()), 2 if session.contrasts else 1)
