"""Says how a sweep goes to whoever follows its job, whether anybody does or not."""

from collections.abc import Iterator
from contextlib import contextmanager

from cudnn_sweep.orchestrator.planning.session import Session
from cudnn_sweep.orchestrator.remote.events import Event, Progressed, Recorded, Started, to_line
from cudnn_sweep.orchestrator.showing.now_and_then import now_and_then
from cudnn_sweep.orchestrator.slots.tune_host import Host

EVERY_S = 1.0


def emit(event: Event) -> None:
    print(to_line(event), flush=True)


class Teller:
    """Prints the events of one sweep, for whoever follows the job."""

    def __init__(self, sweeps: int) -> None:
        """`sweeps`: how many the job has."""
        self._sweeps = sweeps
        self._planned = self._recorded = 0

    def started(self, session: Session, reason: str) -> None:
        self._planned += len(session.plan.trials)
        emit(
            Started(
                sweep_id=session.sweep_id,
                reason=reason,
                plan=session.plan,
                contrasts=session.contrasts,
            )
        )

    @contextmanager
    def telling(self, session: Session, host: Host) -> Iterator[None]:
        """Now and then until the block ends."""
        with now_and_then(lambda: self.tell(session, host), every_s=EVERY_S):
            yield

    def tell(self, session: Session, host: Host) -> None:
        for record in host.take():
            emit(Recorded(record=record))
            self._recorded += 1
        emit(
            Progressed(
                sweep_id=session.sweep_id,
                launch_id=session.launch_id,
                progress=host.progress(),
                planned=self._planned,
                recorded=self._recorded,
                sweeps=self._sweeps,
            )
        )
