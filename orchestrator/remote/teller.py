"""Says how a sweep goes to whoever follows its job, whether anybody does or not."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event as Flag
from threading import Thread

from cudnn_sweep.orchestrator.plan import Plan
from cudnn_sweep.orchestrator.remote.events import Event, Progressed, Recorded, Started, to_line
from cudnn_sweep.orchestrator.session import Session
from cudnn_sweep.orchestrator.tune_host import Host

EVERY_S = 1.0


def say(event: Event) -> None:
    print(to_line(event), flush=True)


class Teller:
    """Of one sweep."""

    def __init__(self, session: Session, sweeps: int) -> None:
        """`sweeps`: how many the job has."""
        self._session = session
        self._sweeps = sweeps
        self._planned = self._recorded = 0

    def started(self, plan: Plan, reason: str) -> None:
        self._planned += len(plan.trials)
        session = self._session
        say(
            Started(
                sweep_id=session.sweep_id, reason=reason, plan=plan, contrasts=session.contrasts
            )
        )

    @contextmanager
    def telling(self, host: Host) -> Iterator[None]:
        """Now and then until the block ends."""
        ended = Flag()

        def tell() -> None:
            while not ended.wait(EVERY_S):
                self.tell(host)

        thread = Thread(target=tell, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def tell(self, host: Host) -> None:
        for record in host.take():
            say(Recorded(record=record))
            self._recorded += 1
        say(
            Progressed(
                sweep_id=self._session.sweep_id,
                launch_id=self._session.launch_id,
                progress=host.progress(),
                planned=self._planned,
                recorded=self._recorded,
                sweeps=self._sweeps,
            )
        )
