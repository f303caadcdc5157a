"""A machine that measures nothing: its trials' numbers are made up as a script says. No Ray, no process.

It runs whole plans in seconds through the same records and the same store, to try out what follows.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from importlib.metadata import version
from pathlib import Path
from uuid import uuid4

from rich.console import Console

from cudnn_sweep.analysis.storing.store import Store
from cudnn_sweep.cluster.strict.strict_yaml import read_strict
from cudnn_sweep.orchestrator.doctor.check import Check
from cudnn_sweep.orchestrator.doctor.storage_checks import check_storage
from cudnn_sweep.orchestrator.nightly.confirmation_plan import LAST_GOOD
from cudnn_sweep.orchestrator.nightly.fake.script import FakeScript
from cudnn_sweep.orchestrator.nightly.fake.trial import FakeTrial
from cudnn_sweep.orchestrator.planning.plan import Trial, narrow
from cudnn_sweep.orchestrator.planning.request import SweepRequest
from cudnn_sweep.orchestrator.planning.session import Session
from cudnn_sweep.orchestrator.planning.standing import standings
from cudnn_sweep.orchestrator.process.protocol import Outcome
from cudnn_sweep.orchestrator.recording.progress import Progress
from cudnn_sweep.orchestrator.recording.record import make_record
from cudnn_sweep.orchestrator.recording.recorder import Recorder
from cudnn_sweep.orchestrator.running.place import RunSession
from cudnn_sweep.orchestrator.running.run_sweep import planned_on
from cudnn_sweep.orchestrator.showing.say import say
from cudnn_sweep.orchestrator.slots.next_block import asking_of
from cudnn_sweep.workloads.cells.suite import SuiteSpec, workload_names
from cudnn_sweep.workloads.hardware.environment import Environment, our_version
from cudnn_sweep.workloads.survey import Survey, workload_facts

UUID = "GPU-fake"
BEGINS = time(2, 30, tzinfo=UTC)
OTHERS_WHERE_CONFIRMED = ("software", "replicate", "block", "trial_id")  # than in the suite


@dataclass(frozen=True, kw_only=True, slots=True)
class FakeMachine:
    """A NightPlace, in one night of its script."""

    script: FakeScript
    night: date

    def look(self, suite: SuiteSpec) -> Survey:
        return Survey(
            environment=self.environment(),
            gpus=[self.script.gpu],
            gpu_uuids=[UUID],
            workloads=workload_facts(workload_names(suite)),
        )

    def announce(self, session: Session, reason: str, console: Console) -> None:
        say(console, f"Sweep {session.sweep_id} ({reason})")

    def follow_running_jobs(self) -> None:
        """There are none."""

    def last_good(self, python: Path) -> Environment:
        parts = self.script.last_good.model_dump(exclude={"first"}, exclude_none=True)
        return _with(self.environment(), parts)

    def modules(self, suite: SuiteSpec, own: Iterable[str]) -> tuple[str, ...]:
        return ()

    def checks(self, results: str) -> Iterator[Check]:
        yield from check_storage(results)

    @contextmanager
    def opened(self, store: Store, machine: Survey, console: Console) -> Iterator[RunSession]:
        def run(session: Session, budget_s: float | None, /) -> Progress:
            return _Run(self, session, store).whole(budget_s)

        yield run

    def environment(self) -> Environment:
        found = Environment(
            device="cuda",
            gpu=self.script.gpu,
            gpu_uuid=UUID,
            gpu_memory_bytes=150_000_000_000,
            mig_profile=None,
            max_sm_clock_mhz=1980,
            power_limit_w=700.0,
            driver="580.1",
            cuda="13.0",
            cudnn=91900,
            torch="2.11.0",
            ray=version("ray"),
            python="3.12.3",
            os="Linux",
            host="fake",
            cpu_model="fake",
            cpu_cores=16,
            version=our_version(),
            commit=None,
        )
        return _with(found, self.script.installed_at(self.night))


def read_fake_machine(file: Path, request: SweepRequest, night: date) -> FakeMachine:
    """Raises LaunchFileError for a mistake in the script, SpecError for an effect that meets no trial."""
    machine = FakeMachine(script=read_strict(file, FakeScript), night=night)
    plan = planned_on(machine.look(request.suite), request).whole
    for place, effect in enumerate(machine.script.effects):
        asked = [each for each in effect.where.items() if each[0] not in OTHERS_WHERE_CONFIRMED]
        narrow(plan, asked, f"{file}: effects[{place}].where")
    return machine


def _with(environment: Environment, parts: dict[str, str | int | float]) -> Environment:
    return replace(environment, **parts)  # type: ignore[arg-type]  # names and types are the script's


class _Run:
    """One session, by the fake's own clock."""

    def __init__(self, machine: FakeMachine, session: Session, store: Store) -> None:
        self._machine = machine
        self._session = session
        self._environments = {
            "": machine.environment(),
            LAST_GOOD: machine.last_good(Path()),
        }
        self._store = store
        self._recorder = Recorder(store.location)
        self._elapsed_s = 0.0

    def whole(self, budget_s: float | None) -> Progress:
        blocks = dict(self._session.plan.blocks())
        asking = asking_of(self._session, lambda: standings(self._store, self._session))
        while not asking.is_over():
            block = asking.take()
            assert block is not None, "one at a time: nothing is under way"
            for trial in blocks[block]:
                self._one(trial)
            asking.done(block)
            if budget_s is not None and self._elapsed_s > budget_s:
                asking.time_is_up()
        return self._recorder.finish(self._session.sweep_id, self._session.fallback_folders())

    def _one(self, trial: Trial) -> None:
        made_up = FakeTrial(
            script=self._machine.script,
            trial=trial,
            night=self._machine.night,
            sweep_id=self._session.sweep_id,
        )
        began = datetime.combine(self._machine.night, BEGINS) + timedelta(seconds=self._elapsed_s)
        self._elapsed_s += self._machine.script.trial_s
        attempt = self._recorder.begin(trial.trial_id, trial.position, UUID)
        if attempt is None or made_up.is_lost:
            return
        self._recorder.record(
            make_record(
                self._session,
                trial,
                _outcome(made_up, began),
                self._environments[trial.software],
                slot=UUID,
                attempt=attempt,
                attempt_id=uuid4().hex,
            )
        )


def _outcome(made_up: FakeTrial, began: datetime) -> Outcome:
    failure = made_up.failure
    return Outcome.of_a_fake(
        began,
        made_up.script.trial_s,
        status=failure or "ok",
        message="the script says so" if failure else None,
        reply=None if failure else made_up.reply(),
    )
