"""A slot: one accelerator's place where trials run, one after another, each in a fresh process."""

from dataclasses import asdict, replace
from pathlib import Path
from uuid import uuid4

from cudnn_sweep.analysis.schema import RunRecord
from cudnn_sweep.orchestrator.errors import ServerError
from cudnn_sweep.orchestrator.pinning import pinning_of
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


class Slot:
    def __init__(self, session: Session, accelerator: str) -> None:
        """`accelerator` tells this slot from the others of its machine where there is no GPU.

        Raises ServerError where the fork server or CUDA does not come up, or shows another device than
        the plan is for.
        """
        self._session = session
        self._server = ForkServer(folder=session.folder, preload=session.preload)
        found = survey(self._server, []).environment
        _check_device(session, found)
        self._environment = _pinned(self._server, found)
        self.name = self._environment.gpu_uuid or f"{self._environment.host}/{accelerator}"

    def run(self, trial: Trial, attempt: int) -> RunRecord:
        """Whatever the trial's process does is in the record; ServerError where the server dies."""
        request = self._request(trial)
        outcome = self._fork(TrialJob(trial=request))
        logs = self._logs(trial) and outcome.status == "ok"
        return make_record(
            self._session,
            trial,
            outcome,
            self._environment,
            log=self._fork(LogJob(trial=request)) if logs else None,
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
        return first and not trial.twin and self._environment.device == "cuda"

    def _fork(self, job: TrialJob | LogJob) -> Outcome:
        measure = self._session.plan.measure
        return self._server.run(
            Request(
                job=job,
                timeout_s=measure.timeout_s,
                host_memory_limit_mib=measure.host_memory_limit_mib,
            )
        )

    def close(self) -> None:
        self._server.close()

    def _compute_cache(self, trial: Trial) -> str | None:
        """A folder for each GPU, cell, config, twin and generation; the user's own stays as it is."""
        if self._environment.device != "cuda":
            return None
        config = content_hash((asdict(trial.config), trial.twin))
        parts = (self.name, trial.cell.cell_id, config, str(trial.cache_generation))
        return str(Path(self._session.scratch, "compute-cache", *parts))


def _check_device(session: Session, found: Environment) -> None:
    wanted = {trial.cell.gpu for trial in session.plan.trials}
    if wanted and found.gpu not in wanted:
        raise ServerError(
            f"{found.host}: the plan is for {', '.join(sorted(wanted))}, this slot finds {found.gpu}: "
            "see what CUDA_VISIBLE_DEVICES shows there"
        )


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
