"""Sweeps of one job, one for each GPU model, as a display takes them: one plan, and how far all are."""

from dataclasses import replace

from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.orchestrator.recording.progress import Progress
from cudnn_sweep.orchestrator.remote.events import Started


class MergedSweeps:
    def __init__(self) -> None:
        self._started: dict[str, Started] = {}
        self._progress: dict[str, Progress] = {}
        self._shifts: dict[str, int] = {}
        """What is added to a sweep's positions, so that no two trials have the same."""

    def start(self, event: Started) -> None:
        """A sweep, or what of one that has run runs again."""
        self._started[event.sweep_id] = event
        self._progress[event.sweep_id] = Progress()
        shift = 0
        for each in self.sweeps():
            self._shifts[each.sweep_id] = shift
            shift += 1 + max((trial.position for trial in each.plan.trials), default=0)

    def note(self, sweep_id: str, progress: Progress) -> None:
        self._progress[sweep_id] = progress

    def sweeps(self) -> list[Started]:
        return list(self._started.values())

    def plan(self) -> Plan:
        trials = [
            replace(trial, position=trial.position + self._shifts[each.sweep_id])
            for each in self.sweeps()
            for trial in each.plan.trials
        ]
        return replace(self.sweeps()[-1].plan, trials=tuple(trials))

    def progress(self) -> Progress:
        found = Progress()
        for sweep_id, own in self._progress.items():
            shift = self._shifts[sweep_id]
            slots = {
                slot: replace(state, position=state.position + shift)
                for slot, state in own.slots.items()
            }
            found = found.then(replace(own, slots={**found.slots, **slots}))
        return found
