"""A slot: one accelerator's place where trials run, one after another, each in a fresh process."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from uuid import uuid4

from cudnn_sweep.analysis.schema import RunRecord
from cudnn_sweep.orchestrator.errors import ServerError
from cudnn_sweep.orchestrator.gpus.pinning import pinning_of
from cudnn_sweep.orchestrator.plan import Trial
from cudnn_sweep.orchestrator.process.client import ForkServer
from cudnn_sweep.orchestrator.process.protocol import (
    LogJob,
    Outcome,
    Request,
    SurveyJob,
    TrialJob,
)
from cudnn_sweep.orchestrator.record import make_record
from cudnn_sweep.orchestrator.session import Session
from cudnn_sweep.workloads.cell import content_hash
from cudnn_sweep.workloads.environment import Environment
from cudnn_sweep.workloads.measurement import TrialRequest
from cudnn_sweep.workloads.survey import Survey

SURVEY_TIMEOUT_S = 120.0  # a first CUDA context on a machine with many GPUs takes tens of seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A software's fork server, and what it finds on the slot's device."""

    server: ForkServer
    environment: Environment


class Slot:
    def __init__(self, session: Session, accelerator: str) -> None:
        """`accelerator` tells this slot from the others of its machine where there is no GPU.

        Raises ServerError where a fork server or CUDA does not come up, or shows another device than
        the plan is for.
        """
        self._session = session
        self._places: dict[str, Place] = {}
        self._ran_last = ""
        try:
            for software in ["", *(each for each in session.plan.softwares() if each)]:
                self._places[software] = self._open(software)
        except ServerError:
            self.close()
            raise
        environment = self._places[""].environment
        self.name = environment.gpu_uuid or f"{environment.host}/{accelerator}"

    def _open(self, software: str) -> Place:
        """The software's fork server, and what it finds."""
        session = self._session
        server = ForkServer(
            python=_python(session, software), folder=session.folder, preload=session.preload
        )
        try:
            found = survey(server, []).environment
            _check_device(session, found)
            if "" in self._places:
                _check_same_device(software, self._places[""].environment, found)
            return Place(server=server, environment=_pinned(server, found))
        except ServerError:
            server.close()
            raise

    def run(self, trial: Trial, attempt: int) -> RunRecord:
        """Whatever the trial's process does is in the record; ServerError where the server dies."""
        request = self._request(trial)
        place = self._places[trial.software]
        outcome = self._fork(place, TrialJob(trial=request))
        if trial.software != self._ran_last:
            outcome = replace(outcome, gap_s=None)  # it would be since the server's own last trial
            self._ran_last = trial.software
        logs = self._logs(trial) and outcome.status == "ok"
        return make_record(
            self._session,
            trial,
            outcome,
            place.environment,
            log=self._fork(place, LogJob(trial=request)) if logs else None,
            slot=self.name,
            attempt=attempt,
            attempt_id=uuid4().hex,
        )

    def _request(self, trial: Trial) -> TrialRequest:
        measure = self._session.plan.measure
        return TrialRequest(
            cell=trial.cell,
            config=trial.config,
            measure=measure,
            seed=trial.seed,
            compute_cache=self._compute_cache(trial),
            reference=trial.replicate < measure.reference_replicates,
        )

    def _logs(self, trial: Trial) -> bool:
        first = trial.replicate < self._session.plan.measure.logged_replicates
        return first and not trial.twin and self._on_gpu(trial)

    def _on_gpu(self, trial: Trial) -> bool:
        return self._places[trial.software].environment.device == "cuda"

    def _fork(self, place: Place, job: TrialJob | LogJob) -> Outcome:
        measure = self._session.plan.measure
        return place.server.run(
            Request(
                job=job,
                timeout_s=measure.timeout_s,
                host_memory_limit_mib=measure.host_memory_limit_mib,
            )
        )

    def close(self) -> None:
        for place in self._places.values():
            place.server.close()

    def _compute_cache(self, trial: Trial) -> str | None:
        """One for each GPU, cell, config, twin, software and generation; the user's own stays as it is."""
        if not self._on_gpu(trial):
            return None
        config = content_hash((asdict(trial.config), trial.twin, trial.software))
        parts = (self.name, trial.cell.cell_id, config, str(trial.cache_generation))
        return str(Path(self._session.scratch, "compute-cache", *parts))


def _check_device(session: Session, found: Environment) -> None:
    wanted = {trial.cell.gpu for trial in session.plan.trials}
    if wanted and found.gpu not in wanted:
        raise ServerError(
            f"{found.host}: the plan is for {', '.join(sorted(wanted))}, this slot finds {found.gpu}: "
            "see what CUDA_VISIBLE_DEVICES shows there"
        )


def _check_same_device(software: str, own: Environment, found: Environment) -> None:
    if (own.env_hash, own.gpu_uuid) != (found.env_hash, found.gpu_uuid):
        raise ServerError(
            f"{software}: finds {found.gpu} {found.gpu_uuid or ''} where this one's own software finds "
            f"{own.gpu} {own.gpu_uuid or ''}: only one device's trials can be compared"
        )


def _python(session: Session, software: str) -> Path | None:
    if not software:
        return None
    if software not in session.pythons:
        known = ", ".join(session.pythons) or "none"
        raise ServerError(f"no Python is named for software {software!r}; named: {known}")
    return session.pythons[software]


def _pinned(server: ForkServer, found: Environment) -> Environment:
    """Where there is a GPU, only CUDA says which: its processes are pinned from then on."""
    pinning = pinning_of(found.gpu_uuid)
    if pinning is None:
        return found
    server.pin(pinning.cpus)
    cores = len(pinning.cpus)
    return replace(found, cpu_cores=cores, pinned_cpus=str(pinning), numa_node=pinning.node)


def survey(server: ForkServer, workloads: list[str]) -> Survey:
    """Raises ServerError where no answer came, with the reason."""
    outcome = server.run(Request(job=SurveyJob(workloads=workloads), timeout_s=SURVEY_TIMEOUT_S))
    if outcome.reply is None or outcome.reply.survey is None:
        raise ServerError(outcome.message or outcome.status)
    return outcome.reply.survey
