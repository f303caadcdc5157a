"""The recorder of many slots: records that come while others are written are written together, next.

A file takes as long to become durable whether it has one row or thirty. Tune's host runs it as a Ray
actor, whose methods all run in one event loop: only there is what it knows changed.
"""

import asyncio
from pathlib import Path

from cudnn_sweep.analysis.storing.schema import RunRecord
from cudnn_sweep.orchestrator.recording.progress import Progress
from cudnn_sweep.orchestrator.recording.recorder import Recorder


class GroupRecorder(Recorder):
    def __init__(
        self, location: str, *, followed: bool = False, configs: int | None = None
    ) -> None:
        super().__init__(location, followed=followed, configs=configs)
        self._waiting: dict[str, RunRecord] = {}
        self._writing = asyncio.Lock()  # whoever waits longest is next
        self._compacting = asyncio.Lock()

    async def record(self, record: RunRecord) -> bool:  # type: ignore[override]  # Ray awaits it
        if self._is_first(record):
            self._waiting[record.trial_id] = record
        async with self._writing:
            if record.trial_id in self._waiting:
                await self._write_waiting()
        if self._collector.has_many() and not self._compacting.locked():
            async with self._compacting:
                await asyncio.to_thread(self._collector.compact_many)
        return record.trial_id not in self._held

    async def finish(self, sweep_id: str, refuges: list[Path]) -> Progress:  # type: ignore[override]
        async with self._writing, self._compacting:
            return super().finish(sweep_id, refuges)

    async def _write_waiting(self) -> None:
        together, self._waiting = list(self._waiting.values()), {}
        self._settle(together, await asyncio.to_thread(self._write, *together))
