"""What a night is to do: the launch file and the command line together, checked before anything runs."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cudnn_sweep.analysis.nightly.history import SettingPair
from cudnn_sweep.analysis.store import Store, open_store
from cudnn_sweep.cluster.launch_file import LaunchFile, read_launch_file
from cudnn_sweep.cluster.nightly_keys import NightlyKeys
from cudnn_sweep.orchestrator.contrast import contrasts_of
from cudnn_sweep.orchestrator.executor import Executor
from cudnn_sweep.orchestrator.nightly.diary import Diary
from cudnn_sweep.orchestrator.nightly.fake_machine import read_fake_machine
from cudnn_sweep.orchestrator.nightly.night_name import NightName, launch_name
from cudnn_sweep.orchestrator.nightly.options import NightOptions
from cudnn_sweep.orchestrator.nightly.webhook import Webhook, find_webhook
from cudnn_sweep.orchestrator.options import LaunchOptions
from cudnn_sweep.orchestrator.spec import SweepSpec, choose_suite
from cudnn_sweep.orchestrator.sweep_choice import Wish
from cudnn_sweep.orchestrator.this_machine import ThisMachine
from cudnn_sweep.workloads.suite import SuiteSpec


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedNight:
    options: NightOptions
    file: LaunchFile[SweepSpec]
    suite_name: str
    suite: SuiteSpec
    name: NightName
    results: str
    executor: Executor | None
    """None: a cluster's, which looks at its nodes itself."""
    webhook: Webhook | None

    @property
    def keys(self) -> NightlyKeys:
        return self.file.sweep.nightly

    @property
    def budget_minutes(self) -> float:
        return self.options.budget_minutes or self.keys.budget_minutes

    @property
    def pairs(self) -> list[SettingPair]:
        return [
            SettingPair(field=each.field, baseline=each.baseline, candidate=each.candidate)
            for each in contrasts_of(self.suite.configs)
        ]

    @property
    def reports(self) -> Path:
        if self.options.reports is not None:
            return self.options.reports
        beside = Path("nightly-reports") if "://" in self.results else Path(self.results, "nightly")
        return beside / self.name.launch / "reports"

    def diary(self) -> Diary:
        return Diary(store=self.store(), launch=self.name.launch)

    def store(self) -> Store:
        return open_store(self.results)

    def launch_options(self) -> LaunchOptions:
        return LaunchOptions(
            file=self.options.file,
            suite=self.suite_name,
            results=self.options.results,
            wish=Wish(sweep_id=self.name.sweep_id),
            budget_minutes=self.budget_minutes,
            brief=True,
            dry_run=self.options.dry_run,
            program=self.options.program,
        )

    def again(self, cell_id: str) -> str:
        """What to type to measure a cell again."""
        words = [self.options.program, "launch", str(self.options.file), "--suite", self.suite_name]
        if self.options.results is not None:
            words += ["--results", self.options.results]
        return shlex.join([*words, "--new", "--only", f"cell_id={cell_id}"])


def read_asked(options: NightOptions, environment: Mapping[str, str]) -> AskedNight:
    """Raises an error of the folders for a mistake in the launch file, the suite or the script."""
    file = read_launch_file(options.file, SweepSpec)
    keys = file.sweep.nightly
    name, suite = choose_suite(file.sweep, options.suite or keys.suite)
    executor: Executor | None = ThisMachine() if file.where == "this_machine" else None
    if options.fake is not None:
        executor = read_fake_machine(options.fake, options.night)
    return AskedNight(
        options=options,
        file=file,
        suite_name=name,
        suite=suite,
        name=NightName(date=options.night, launch=launch_name(file)),
        results=options.results or file.sweep.results,
        executor=executor,
        webhook=None if keys.webhook is None else find_webhook(keys.webhook, environment),
    )
