"""What is kept: what the program answers, as values of JSON or as text, by the name of the file that keeps it.

Whatever depends on the machine is taken out: paths, the terminal's width, what is installed, the date of today.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, chdir, contextmanager
from dataclasses import asdict, replace
from datetime import date
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from pkgutil import resolve_name
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, Literal, TypeAlias
from unittest.mock import patch

import typer
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from rich.console import Console
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from cudnn_sweep.analysis.engine.database import Database, open_database
from cudnn_sweep.analysis.engine.formats import to_json
from cudnn_sweep.analysis.engine.queries import load_query, part_names, query_names
from cudnn_sweep.analysis.errors import AnalysisError
from cudnn_sweep.analysis.nights.outcome import NightOutcome
from cudnn_sweep.analysis.store.location import REFERENCE
from cudnn_sweep.analysis.store.stored import open_stored
from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.launch_file import read_launch_file
from cudnn_sweep.orchestrator.cli import app
from cudnn_sweep.orchestrator.doctor.examine import examine
from cudnn_sweep.orchestrator.errors import OrchestratorError
from cudnn_sweep.orchestrator.nightly.news import WhereToLook, news_of, print_outcome, slack_body
from cudnn_sweep.orchestrator.nightly.night import run_night
from cudnn_sweep.orchestrator.planning.options import NightOptions
from cudnn_sweep.orchestrator.planning.spec import (
    SweepSpec,
    cells_named,
    choose_suite,
    load_suite,
    suite_names,
)
from cudnn_sweep.orchestrator.running.run_sweep import plan_of
from cudnn_sweep.workloads.cells.expand import WorkloadFacts
from cudnn_sweep.workloads.cells.suite import SuiteSpec, workload_names
from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.hardware.monitor import MonitorKind
from cudnn_sweep.workloads.hashes import text_hash
from cudnn_sweep.workloads.survey import Survey, workload_facts
from tests.fake_machine import FakeMachine, FakeScript, read_fake_machine
from tests.goldens import kept
from tests.goldens.advised import advised
from tests.made_up_night import files_of, nights_like_it
from tests.orchestrator.nightly import test_month as month
from tests.orchestrator.typed import invoke

Collect: TypeAlias = Callable[[], Any]
Device: TypeAlias = Literal["cuda", "cpu"]

ROOT = Path(__file__).parents[2]
MISTAKES = Path(__file__).parent / "mistakes.yaml"
TYPED = Path(__file__).parent / "commands.yaml"  # questions with parameters too
# 3,000 trials of schema 1 to which nearly every question has an answer: four nights of thirty cells, the third with
# other software, the fourth on other GPUs. Their numbers mean nothing.
MADE_UP = Path(__file__).parent / "made-up"
ONE_RECORD = ROOT / "tests/analysis/data/schema-1.parquet"
RESULTS = ROOT / "docs/results"
WIDTH = 100
A_MODEL = WorkloadFacts(  # whether or not its package is installed
    directions=("training", "inference"),
    varies=("batch", "space"),
    input_shape=None,
    recomputes=True,
    is_model=True,
)
PLANTED = ROOT / "docs/examples/planted-nights"
PLANTED_RESULTS = RESULTS / "h200-2026-11-22/nights"
PLANTED_NIGHTS = [
    date(2026, 11, day) for day in range(16, 22)
]  # of which the last four have faults
LOOK_THERE = WhereToLook(
    folder=Path("/srv/my gpu"), program="sweep", results="results", page="https://a/night.html"
)
FAKE_NIGHTS = [date(2026, 11, day) for day in range(1, 16)]


OF_THE_COMPARISON = re.compile(
    r"^(\| (started|took) \||(started|took)(:| {2})).*\n", re.MULTILINE
)  # when a night was compared
OF_THIS_MACHINE = ("CPU", "Ray", "results", "temporary files", "compute caches", "GPU 0 cores")


class Goldens:
    """Collects each golden, by its file's name. `whole`: also what takes longer than CI has for it, above all the
    answers over docs/results. One page is not here, but compared as docs/claims.md: so is what CI sees of the answers
    to claims.
    """

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole
        self._open = ExitStack()
        self._folder = Path(self._open.enter_context(TemporaryDirectory(prefix="sweep-goldens-")))
        shutil.copytree(MADE_UP, self._folder / "made-up")
        self.stores = {"reference": Path(str(REFERENCE)), "made-up": self._folder / "made-up"}
        self._typed = _read(TYPED.read_text())
        self._asked_of = tuple(self.stores) if whole else ("made-up",)
        self._places = {
            str(REFERENCE): "REFERENCE",
            str(self._folder): "FOLDER",
            str(RESULTS): "RESULTS",
            str(ROOT): "ROOT",
            f"rayVersion: {version('ray')}": "rayVersion: RAY",
        }
        if whole:
            found = {part.parent.parent for part in RESULTS.rglob("sweep=*/*.parquet")}
            self.stores |= {str(each.relative_to(RESULTS)): each for each in sorted(found)}
        self._databases: dict[str, Database] = {}

    def every(self) -> dict[str, Collect]:
        found: dict[str, Collect] = {
            **{f"answers/{name}.json.xz": self._answers(name) for name in query_names()},
            "answers/asked.json.xz": self._asked,
            "reports/made-up.json.xz": self._report("made-up"),
            "reports/nights.json.xz": reports_of_nights,
            "reports/advised.txt": advised,
            "nights/planted.json.xz": self._planted_nights,
            "plans.json.xz": lambda: plans(("cuda", "cpu") if self._whole else ("cuda",)),
            "doctor.json": self._doctor,
            "help.txt": help_of_all,
            "commands.txt": lambda: self._commands(self._typed["commands"]),
            "mistakes.txt": self._mistakes,
        }
        return found | (self._slow() if self._whole else {})

    def _slow(self) -> dict[str, Collect]:
        others = [name for name in self.stores if name != "made-up"]
        return {
            **{
                f"answers/{name}.json.xz": self._answers(name, "reference", "made-up")
                for name in part_names()
            },
            **{f"reports/{n.replace('/', '-')}.json.xz": self._report(n) for n in others},
            "reports/made-up.md": self._words("made-up"),
            "reports/field_cases.md": self._page("field_cases", "reference"),
            "nights/fake.json.xz": self._fake_nights,
            "commands-answered.txt": lambda: self._commands(self._typed["answered"]),
        }

    def close(self) -> None:
        self._open.close()

    def _answers(self, name: str, *stores: str) -> Collect:
        """A question's over these stores, or over each."""
        query = load_query(name)

        def answers() -> dict[str, list[dict[str, Any]]]:
            return {
                store: json.loads(to_json(self._database(store).query(query.sql, query.values({}))))
                for store in stores or (self.stores if self._whole else self._asked_of)
            }

        return answers

    def _asked(self) -> dict[str, dict[str, list[dict[str, Any]]]]:
        found: dict[str, dict[str, list[dict[str, Any]]]] = {store: {} for store in self._asked_of}
        for line in self._typed["asked"].splitlines():
            name, *given = shlex.split(line)
            query = load_query(name)
            values = query.parse_values(dict(each.split("=") for each in given))
            for store, answers in found.items():
                answer = self._database(store).query(query.sql, query.values(values))
                answers[line] = json.loads(to_json(answer))
        return found

    def _database(self, store: str) -> Database:
        if store not in self._databases:
            opened = open_database(open_stored([str(self.stores[store])]))
            self._databases[store] = self._open.enter_context(opened)
        return self._databases[store]

    def _report(self, store: str) -> Collect:
        return lambda: json.loads(
            self._output("report", "--json", "--results", str(self.stores[store]))
        )

    def _page(self, page: str, store: str) -> Collect:
        return self._words(store, "--page", page)

    def _words(self, store: str, *options: str) -> Collect:
        where = ("--results", str(self.stores[store]))
        return lambda: self._output("report", "--format", "markdown", *options, *where)

    def _output(self, *arguments: str) -> str:
        code, text = typed(*arguments)
        assert code == 0, text
        return self._plain(text)

    def _plain(self, text: str) -> str:
        for path, name in self._places.items():
            text = text.replace(path, name)
        return text

    def _planted_nights(self) -> list[Any]:
        """Nights of an H200 that were measured, compared anew."""
        with self._nights() as here:
            shutil.copytree(
                PLANTED_RESULTS, here / "results", ignore=shutil.ignore_patterns("reports")
            )
            shutil.copytree(PLANTED, here, dirs_exist_ok=True)
            shutil.copy(here / "planted.py", here / "stack.py")
            nights = PLANTED_NIGHTS if self._whole else PLANTED_NIGHTS[:3]
            return [_night(night, measure=False) for night in nights]

    def _fake_nights(self) -> list[Any]:
        """The first nights of a month on the fake machine, which confirms what it finds."""
        with self._nights() as here:
            texts = {"cluster": month.LAUNCH_FILE, "suite": month.SUITE, "script": month.SCRIPT}
            for name, text in texts.items():
                (here / f"{name}.yaml").write_text(text)
            script = Path("script.yaml")
            return [_night(night, read_fake_machine(script, night)) for night in FAKE_NIGHTS]

    @contextmanager
    def _nights(self) -> Iterator[Path]:
        with TemporaryDirectory(dir=self._folder) as here, chdir(here):
            yield Path(here)

    def _doctor(self) -> dict[str, list[dict[str, str]]]:
        """On the fake machine, with each fake GPU, quickly. What it says of this machine is left out."""
        place = FakeMachine(script=FakeScript(), night=FAKE_NIGHTS[0])
        machine = place.look(load_suite("quick"))
        results = str(self._folder / "new")
        kinds: tuple[MonitorKind, ...] = (
            "fake_calm",
            "fake_shared",
            "fake_throttled",
            "fake_unsettled",
            "fake_slice",
            "off",
        )
        looks = "cudnn_sweep.orchestrator.doctor.examine.look_at_this_machine"
        with patch(looks, lambda: machine):
            return {
                kind: [
                    asdict(each) | ({"found": ""} if each.name in OF_THIS_MACHINE else {})
                    for each in examine(results, 0.0, kind, quick=True)
                ]
                for kind in kinds
            }

    def _commands(self, commands: str) -> str:
        """What commands print, and their exit codes: `$ command`, `[code]`, output and messages. They look at the
        fake machine.
        """
        parts = []
        for name, text in self._typed["files"].items():
            (self._folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self._folder / name).write_text(text)
        for store in ("one", "torn"):
            shutil.copy(ONE_RECORD, self._folder / f"{store}/sweep=night-1/part-1.parquet")
        place = FakeMachine(script=FakeScript(), night=FAKE_NIGHTS[0])
        machine = "cudnn_sweep.orchestrator.running.this_machine"
        with (
            chdir(self._folder),
            patch(f"{machine}._held_devices", lambda **_: None),
            patch(f"{machine}.ThisMachine.look", lambda _, suite: place.look(suite)),
            patch("cudnn_sweep.orchestrator.process.client.ForkServer", None),
        ):
            for line in commands.strip().splitlines():
                code, text = typed(*shlex.split(line.replace("REFERENCE", str(REFERENCE))))
                parts.append(f"$ sweep {line}\n[{code}]\n{self._plain(text).rstrip()}\n")
        return "\n".join(parts)

    def _mistakes(self) -> str:
        return "\n".join(self.mistakes())

    def mistakes(self, *kinds: str) -> list[str]:
        """What is said of each text in mistakes.yaml, of these kinds or all, by the function that reads it, else of
        the suite or the launch file that is planned.
        """
        parts, schemas = [], {}
        for name in ("launch-file", "suite"):
            schemas[name] = Draft202012Validator(json.loads(typed("list", "schema", name)[1]))
        with chdir(mkdtemp(dir=self._folder)):
            for what, kind in _read(MISTAKES.read_text()).items():
                if kinds and what not in kinds:
                    continue
                file = Path("shapes.csv" if "beside" in kind else kind.get("file", "suite.yaml"))
                schema = schemas["launch-file" if "file" in kind else "suite"]
                Path("suite.yaml").write_text(kind.get("beside", ""))
                read = resolve_name(kind["by"]) if "by" in kind else _planned
                for text in kind["texts"]:
                    file.write_text(kind.get("as", "TEXT").replace("TEXT", text))
                    said = self._plain(_said_of(read, Path(kind.get("file", "suite.yaml"))))
                    is_planned = read is _planned and file.suffix == ".yaml"
                    if is_planned and not _takes(schema, file.read_text()):
                        said += "\nIt is against the schema."
                    parts.append(f"{what}: {text.strip()}\n→ {said}\n")
        return parts


def reports_of_nights() -> dict[str, dict[str, Any]]:
    """Of made-up nights, by the file; and what a terminal and a webhook are told."""
    found: dict[str, dict[str, Any]] = {}
    for name, night in nights_like_it().items():
        found[name] = files_of(night) | told_of(night[0])
    return found


def told_of(night: NightOutcome) -> dict[str, Any]:
    shown = StringIO()
    print_outcome(night, [], Console(file=shown, width=WIDTH, color_system=None))
    slack = slack_body(news_of(night, night.alerts, LOOK_THERE))
    return {"terminal": shown.getvalue(), "slack": slack}


def _read(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def _takes(schema: Draft202012Validator, text: str) -> bool:
    """What is no YAML, no schema sees."""
    try:
        return bool(schema.is_valid(_read(text)))
    except (YAMLError, ValueError):
        return True


def _said_of(read: Callable[[Path], object], file: Path) -> str:
    try:
        said = read(file)
    except (AnalysisError, ClusterError, OrchestratorError, WorkloadError, ValueError) as error:
        return str(error)
    return said if isinstance(said, str) else "is read"


def _planned(file: Path) -> str:
    """A suite, or a launch file."""
    if file.stem == "suite":
        name, suite = str(file), load_suite(str(file))
    else:
        name, suite = choose_suite(read_launch_file(file, SweepSpec).sweep, None)
    with cells_named(file, name):
        _plan(suite, name, "cuda")
    return "is planned"


def typed(*arguments: str) -> tuple[int, str]:
    """Exit code and output of a command, as at a terminal of WIDTH columns without colours."""

    def leave(code: int) -> None:
        raise typer.Exit(code)

    with patch("cudnn_sweep.orchestrator.cli.failing.leave", leave):
        terminal = {"COLUMNS": str(WIDTH), "NO_COLOR": "1", "TERM": "dumb"}
        done = invoke(arguments, env=terminal, prog_name="sweep")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, "\n".join(line.rstrip() for line in done.output.splitlines()) + "\n"


def help_of_all() -> str:
    """`--help` of every command."""
    root = typer.main.get_command(app)
    return "\n".join(typed(*path, "--help")[1] for path in _paths(root))


def _paths(command: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield above
    for name, each in getattr(command, "commands", {}).items():
        if not each.hidden:
            yield from _paths(each, (*above, name))


def plans(asked: tuple[Device, ...], left_out: Collection[str] = ()) -> dict[str, Any]:
    """Of every suite, on a GPU or a CPU: its plan hash, and of each cell how many trials it has with a hash of
    their ids.
    """
    found: dict[str, Any] = {}
    for name in suite_names():
        if name in left_out:
            continue
        suite = load_suite(name)
        devices: tuple[Device, ...] = ("cuda",) if suite.needs_cuda else asked
        found |= {f"{name} on {device}": _plan(suite, name, device) for device in devices}
    return found


def _plan(suite: SuiteSpec, name: str, device: Device) -> dict[str, Any]:
    names = workload_names(suite)
    facts = {each: A_MODEL for each in names if ":" in each}
    facts |= workload_facts([each for each in names if ":" not in each])
    where = FakeMachine(script=FakeScript(), night=FAKE_NIGHTS[0]).environment()
    where = replace(where, device=device, gpu=where.gpu if device == "cuda" else "CPU")
    plan = plan_of(
        name,
        suite,
        Survey(
            environment=where, gpus=2 * [where.gpu], gpu_uuids=[], workloads=facts, compiler="g++"
        ),
    )
    trials: dict[str, list[str]] = {}
    for trial in plan.trials:
        trials.setdefault(trial.cell.cell_id, []).append(trial.trial_id)
    ids = {cell_id: f"{len(each)} {text_hash(' '.join(each))}" for cell_id, each in trials.items()}
    return {"plan_hash": plan.plan_hash, "looks": list(plan.looks), "trials": ids}


def _night(night: date, place: FakeMachine | None = None, **options: Any) -> dict[str, Any]:
    """Its exit code, what a terminal shows, and its JSON."""
    asked = NightOptions(file=Path("cluster.yaml"), night=night, program="sweep", **options)
    shown = StringIO()
    code = run_night(asked, {}, Console(file=shown, width=WIDTH, color_system=None), place)
    (report,) = Path("results/nightly").glob(f"*/reports/{night}/night.json")
    found = json.loads(report.read_text())
    del found["started_at"], found["ended_at"]  # of the comparison
    text = OF_THE_COMPARISON.sub("", report.with_suffix(".md").read_text())
    shown_text = OF_THE_COMPARISON.sub("", shown.getvalue())
    return {"exit_code": code, "terminal": shown_text, "json": found, "markdown": text}


def untold(*kinds: str) -> list[str]:
    """What is said now of the mistakes of these kinds, and is not kept; all of it if one kind is unknown."""
    goldens, before = Goldens(whole=False), kept.read("mistakes.txt")
    found = goldens.mistakes(*kinds)
    goldens.close()
    are_known = {part.partition(":")[0] for part in found} == set(kinds)
    return [part for part in found if part not in before] if are_known else found
