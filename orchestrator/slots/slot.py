"""Runs blocks on a slot, one after another. Each trial runs in a new process."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, Self, TypeAlias

from cudnn_sweep.analysis.store.schema import RunRecord
from cudnn_sweep.orchestrator.errors import ServerError
from cudnn_sweep.orchestrator.gpus.cpu_pinning import pinning_of, read_cores, show_cpus
from cudnn_sweep.orchestrator.planning.plan import OWN_SOFTWARE, Trial
from cudnn_sweep.orchestrator.planning.session import CodeLocation, Session
from cudnn_sweep.orchestrator.process.client import Early, ForkServer, survey
from cudnn_sweep.orchestrator.process.protocol import LogJob, Request, TrialJob
from cudnn_sweep.orchestrator.recording.record import Attempt, make_record, raced_out
from cudnn_sweep.orchestrator.slots.block import BeginTrial, Block, Running
from cudnn_sweep.workloads.cells.config import CODE
from cudnn_sweep.workloads.cells.measurement import MeasureSpec, TrialRequest
from cudnn_sweep.workloads.hardware.environment import Environment
from cudnn_sweep.workloads.hashes import content_hash


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceServer:
    server: ForkServer
    environment: Environment
    gpu_uuids: tuple[str, ...]
    """GPUs of the slot, one for each rank. Empty if there is no GPU."""
    cpus: frozenset[int]


class Slot(Protocol):
    name: str

    def measure(self, trials: Sequence[Trial], begin: BeginTrial) -> Iterator[RunRecord]:
        """Run a block's trials and yield their records. Raises ServerError if a server dies."""

    def leave_out(self, trial: Trial) -> RunRecord:
        """Return the record of a trial that does not run because its config lost a race."""

    def close(self) -> None: ...


Server: TypeAlias = tuple[str, tuple[tuple[str, str], ...], int]
OWN: Server = (OWN_SOFTWARE, (), 0)
OPENED_AT_ONCE = 4  # fork servers that start at the same time


def server_of(trial: Trial, *, apart: bool = False) -> Server:
    """Return the key of a trial's fork server. With `apart`, twins have different servers."""
    return trial.software, tuple(trial.config.at_import.items()), trial.twin if apart else 0


class ForkedSlot:
    def __init__(self, session: Session, name: str, servers: Mapping[Server, DeviceServer]) -> None:
        self._session = session
        self.name = name
        self._servers = dict(servers)
        self._apart = _several(session.plan.trials)
        self._worn: set[Server] = set()
        """Servers that a block has compared. They restart before the next comparison."""
        self._ran_last = OWN

    @classmethod
    def open(cls, session: Session, accelerator: str, early: Early | None = None) -> Self:
        """Start the fork servers that the plan needs.

        `accelerator` is part of the slot's name if the slot has no GPU. `early` is a server of our
        own software that already runs. Raises ServerError if a server does not start or finds an
        unexpected device.
        """
        apart = _several(session.plan.trials)
        servers_needed = {server_of(trial, apart=apart) for trial in session.plan.trials}
        keys = [OWN, *sorted(servers_needed - {OWN})]
        with ExitStack() as opened, ThreadPoolExecutor(OPENED_AT_ONCE) as pool:

            def open_one(key: Server) -> DeviceServer:
                begun = early if key == OWN else None
                server = _open(session, key, survey_only=key not in servers_needed, early=begun)
                opened.callback(server.server.close)
                return server

            servers = dict(zip(keys, pool.map(open_one, keys), strict=True))
            own, uuids = servers[OWN].environment, servers[OWN].gpu_uuids
            for (software, *_), place in servers.items():
                its = place.environment
                if (own.env_hash, uuids) != (its.env_hash, place.gpu_uuids):
                    raise ServerError(
                        f"{software} finds {its.gpu} {its.gpu_uuid or ''}, our own software finds "
                        f"{own.gpu} {own.gpu_uuid or ''}: only trials on one device are comparable"
                    )
            opened.pop_all()
        return cls(session, "+".join(uuids) or f"{own.host}/{accelerator}", servers)

    @property
    def measuring(self) -> MeasureSpec:
        return self._session.plan.measure

    def measure(self, trials: Sequence[Trial], begin: BeginTrial) -> Iterator[RunRecord]:
        if _several(trials):
            self.renew([trial for trial in trials if self._server_of(trial) in self._worn])
            self._worn |= {self._server_of(trial) for trial in trials}
        yield from Block(self, trials, begin).measure()

    def leave_out(self, trial: Trial) -> RunRecord:
        place = self._servers[self._server_of(trial)]
        return raced_out(self._session, trial, place.environment, self.name, datetime.now(UTC))

    def renew(self, trials: Sequence[Trial]) -> None:
        """Restart the servers of these trials, so that no two blocks compare the same servers.

        The processes of a server share a memory layout, which can bias a comparison. See Mytkowicz
        et al., "Producing wrong data without doing anything obviously wrong!", 2009.
        """

        def renew(key: Server) -> None:
            old = self._servers[key]
            old.server.close()
            os.sched_setaffinity(0, old.cpus)  # the server inherits the CPUs of this thread
            self._servers[key] = replace(old, server=_server(self._session, key))

        with ThreadPoolExecutor(OPENED_AT_ONCE) as pool:
            list(pool.map(renew, {self._server_of(trial) for trial in trials}))

    def _server_of(self, trial: Trial) -> Server:
        return server_of(trial, apart=self._apart)

    def start(self, trial: Trial, attempt: int, *, takes_turns: bool, beside: bool) -> Running:
        request, key = self._request(trial), self._server_of(trial)
        cache, server = request.compute_cache, self._servers[key].server
        follows = not beside and key == self._ran_last
        self._ran_last = key
        return Running(
            trial=trial,
            attempt=attempt,
            follows=follows,
            new_cache=cache is not None and not Path(cache).exists(),
            server=server,
            number=server.begin(self._limited(TrialJob(trial=request, takes_turns=takes_turns))),
        )

    def record(self, running: Running, **how: Any) -> RunRecord:
        """Return the record of a trial that has ended. `how` has further fields of Attempt."""
        trial, outcome, log = running.trial, running.outcome, None
        assert outcome is not None
        if not running.follows:
            outcome = replace(outcome, gap_s=None)  # the previous trial ran on another server
        place = self._servers[self._server_of(trial)]
        if self.logs(trial) and outcome.status == "ok":
            log = place.server.run(self._limited(LogJob(trial=self._request(trial))))
        attempt = Attempt(
            slot=self.name,
            attempt=running.attempt,
            turn_cpus=show_cpus(running.cpus) or None,
            overlapped_s=running.overlapped_s,
            **how,
        )
        return make_record(self._session, trial, outcome, place.environment, attempt, log)

    def turn_cpus(self) -> tuple[int, ...]:
        """Return the CPUs on which a block's processes take turns. If empty, they use all CPUs."""
        wanted = self.measuring.turn_cpus
        own = self._servers[OWN]
        if wanted is None or own.environment.device != "cuda":
            return ()
        return tuple(core.cpus[0] for core in read_cores(own.cpus)[-wanted:])

    def forget(self, running: Running) -> None:
        """Remove the compute cache of a trial if the trial has created it."""
        folder = self.compute_cache(running.trial)
        if running.new_cache and folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def _request(self, trial: Trial) -> TrialRequest:
        measure = self.measuring
        return TrialRequest(
            cell=trial.cell,
            config=trial.config,
            measure=measure,
            seed=trial.seed,
            compute_cache=self.compute_cache(trial),
            reference=trial.replicate < measure.reference_replicates,
        )

    def logs(self, trial: Trial) -> bool:
        first = trial.replicate < self.measuring.logged_replicates
        return first and not trial.twin and self._on_gpu(trial)

    def _on_gpu(self, trial: Trial) -> bool:
        return self._servers[self._server_of(trial)].environment.device == "cuda"

    def _limited(self, job: TrialJob | LogJob) -> Request:
        return Request(
            job=job,
            timeout_s=self.measuring.timeout_s,
            host_memory_limit_mib=self.measuring.host_memory_limit_mib,
        )

    def close(self) -> None:
        for place in self._servers.values():
            place.server.close()

    def compute_cache(self, trial: Trial) -> str | None:
        """Return the folder of a trial's compute cache, or None if the trial compiles nothing."""
        if not (self._on_gpu(trial) or trial.config.how.compiles):
            return None
        own = self._servers[OWN].environment
        config = content_hash((trial.config.identity(), trial.twin, trial.software))
        of_gpu = content_hash((own.env_hash, own.driver))
        parts = (of_gpu, trial.cell.cell_id, config, str(trial.cache_generation))
        return str(Path(self._session.scratch, "compute-cache", *parts))


def _several(trials: Sequence[Trial]) -> bool:
    return len({server_of(trial) for trial in trials}) > 1


def _server(
    session: Session, key: Server, *, survey_only: bool = False, early: Early | None = None
) -> ForkServer:
    software, variables, _ = key
    name = dict(variables).get(CODE)
    code = CodeLocation(folder=session.folder) if name is None else session.codes.get(name)
    if code is None:
        raise ServerError(f"code: found {name!r}, allowed: null; only `sweep gate` sets it")
    return ForkServer(
        python=code.python or session.pythons.get(software),
        folder=code.folder,
        survey_only=survey_only,
        preload=session.preload,
        variables={**code.variables, **dict(variables)},
        early=early,
    )


def _open(session: Session, key: Server, *, survey_only: bool, early: Early | None) -> DeviceServer:
    """Start a fork server, survey its environment, and pin it to the CPU cores near its GPUs."""
    server = _server(session, key, survey_only=survey_only, early=early)
    ranks = max((trial.cell.rank_count for trial in session.plan.trials), default=1)
    wanted = {trial.cell.gpu for trial in session.plan.trials}
    try:
        found = survey(server, [])
        environment, uuids = found.environment, tuple(found.gpu_uuids[:ranks])
        if uuids and len(uuids) < ranks:
            raise ServerError(f"this slot needs {ranks} GPUs, found {', '.join(uuids)}")
        if wanted and environment.gpu not in wanted:
            raise ServerError(
                f"{environment.host}: the plan is for {', '.join(sorted(wanted))}, this slot finds "
                f"{environment.gpu}: check CUDA_VISIBLE_DEVICES there"
            )
    except ServerError:
        server.close()
        raise
    pinnings = [pin for uuid in uuids if (pin := pinning_of(uuid, session.gpus))]
    cpus = frozenset(os.sched_getaffinity(0))
    if pinnings:
        cpus = frozenset[int]().union(*(pin.cpus for pin in pinnings))
        server.pin(cpus)
        text, node = show_cpus(cpus), pinnings[0].node
        environment = replace(environment, cpu_cores=len(cpus), pinned_cpus=text, numa_node=node)
    return DeviceServer(server=server, environment=environment, gpu_uuids=uuids, cpus=cpus)
