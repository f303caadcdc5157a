"""June 2026 again, as nights on the fake machine: an engine whose bits do not repeat, then its ban; and nights in which
new software changes nothing.
"""

import io
import json
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console

from cudnn_sweep.analysis.nights.findings import SHARED
from cudnn_sweep.analysis.nights.outcome import Finding, NightOutcome
from cudnn_sweep.analysis.nights.reports.report import from_json
from cudnn_sweep.analysis.nights.reports.sections import headline, one_by_one
from cudnn_sweep.analysis.nights.reports.words import finding_texts
from cudnn_sweep.orchestrator.nightly.night import run_night
from cudnn_sweep.orchestrator.planning.options import NightOptions
from tests.fake_machine import read_fake_machine
from tests.studies.parts.command import run

FIRST = date(2026, 6, 1)
UPGRADE, BAN, LAST = date(2026, 6, 10), date(2026, 6, 20), date(2026, 6, 24)
STORED = Path(__file__).parents[2] / "docs/results"
LAST_GOOD = "{last_good: /opt/last-good/bin/python}"
FILES = {
    "cluster": "{cluster_name: june, metadata: {sweep: {nightly: NIGHTLY}}}",
    "suite": """
replicates: 3
configs: [{}, {benchmark: true}, {errata: ["pin ConvFwd:5"]}]
cells:
  - workload: conv
    problem: [tutorials/rgb224, tutorials/rgb256, tutorials/vgg16_conv3_2]
    precision: bf16
    layout: channels_last
""",
    "quiet": """
noise: {night: 0.005, process: 0.01}
installed:
  - {from: 2026-06-15, cudnn: 92300}
  - {from: 2026-07-10, torch: 2.12.0}
""",
    "script": f"""
noise: {{night: 0.005, process: 0.01}}
last_good: {{torch: 2.11.0, cudnn: 91900}}
installed:
  - {{from: 2026-06-01, host: gpu07, cudnn: 91900}}
  - {{from: {UPGRADE}, cudnn: 92300}}
  - {{from: {BAN}, torch: 2.12.0}}
effects:
  - {{where: {{problem: tutorials/rgb224}}, from: {UPGRADE}, to: 2026-06-19, engine: ConvFwd_eng5, repeats: false}}
  - {{where: {{problem: tutorials/rgb256}}, from: {UPGRADE}, to: 2026-06-19, engine: ConvFwd_eng5}}
  - {{where: {{problem: tutorials/rgb224}}, from: {BAN}, engine: ConvFwd_eng0, time: 1.8}}
  - {{where: {{problem: tutorials/rgb256}}, from: {BAN}, engine: ConvFwd_eng0, time: 1.3}}
""",
}
CELLS = {UPGRADE: ("tutorials/rgb224",), BAN: ("tutorials/rgb224", "tutorials/rgb256")}
PLANTED = {UPGRADE: ("repeats",), BAN: ("steady_device", "steady_wall")}


def june(
    nights: Annotated[int, typer.Option(min=0, help="Further nights without an effect.")] = 60,
    seeds: Annotated[int, typer.Option(min=1, help="How often these are played.")] = 1,
) -> None:
    """Replay June 2026 on the fake machine, then nights without an effect (a minute).

    Exit code 1: something was not told on its first night with its cause, or something else was told.
    """
    mistakes, days = [], (LAST - FIRST).days + 1
    played = _played("script", days)
    for outcome in played:
        told = [each for each in _told(outcome) if each.since == outcome.date]
        if told:
            typer.echo(headline(outcome, told))
        for change in one_by_one(finding_texts(outcome)):
            if change.new_of(told):
                typer.echo("\n    ".join(["  " + change.summary, *change.details[:-1]]))
        mistakes += _mistakes(outcome)
    for seed in range(seeds):
        words = [each for one in _played("quiet", nights, seed) for each in _told(one)]
        typer.echo(f"{nights} nights without an effect, seed {seed}: {len(words)} findings told")
        mistakes += [f"{each.since}: {each.key}" for each in words]
    two = _played("script", days, nightly=LAST_GOOD)
    reports = sorted(STORED.glob("*/nights/reports/*/night.json"))
    stored = [from_json(each.read_text()) for each in reports]
    for nights_of, name in (
        (two, "June with a second environment"),
        (played, "June without one"),
        (stored, "nights in docs/results, without one"),
    ):
        typer.echo(f"Alerts confirmed by nights alone, {name}: {_by_nights_alone(nights_of)}")
    typer.echo(
        "\n".join(mistakes) or "Each planted change was told on its first night, and nothing else."
    )
    raise typer.Exit(bool(mistakes))


def _told(outcome: NightOutcome) -> list[Finding]:
    return [each for each in outcome.findings if each.is_alert or each.is_news]


def _mistakes(outcome: NightOutcome) -> list[str]:
    """Of one night: new alerts are those planted for it, of the planted cells, with their cause; news, of the upgrade."""
    new = [
        each for each in _told(outcome) if each.since == outcome.date or each.since not in PLANTED
    ]
    alerts = [each for each in new if each.is_alert]
    metrics = tuple(sorted({each.key.metric for each in alerts}))
    part = {UPGRADE: ["cudnn"], BAN: ["torch"]}.get(outcome.date)
    is_right = (
        metrics == PLANTED.get(outcome.date, ())
        and bool(new[len(alerts) :]) == (outcome.date == UPGRADE)
        and all([change.part for change in each.moved] == part for each in new)
        and all(each.kernels and each.key.cell.startswith(CELLS[outcome.date]) for each in alerts)
    )
    return [] if is_right else [f"{outcome.date}: {metrics} of {len(new)} findings"]


def _by_nights_alone(outcomes: Sequence[NightOutcome]) -> str:
    """Count the series with an alert, and those of them that no fresh pair or trial confirmed."""
    blocks = {
        (each.key.series_id, each.since): each.blocks
        for outcome in outcomes
        for each in (*outcome.findings, *outcome.members)
        if each.is_alert and each.key.metric != SHARED
    }
    return f"{list(blocks.values()).count(0)} of {len(blocks)}"


def _played(
    script: str, nights: int, seed: int = 0, nightly: str = "{last_good: null}"
) -> list[NightOutcome]:
    with TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in FILES.items():
            (folder / f"{file}.yaml").write_text(text.replace("NIGHTLY", nightly))
        (folder / f"{script}.yaml").write_text(f"seed: {seed}\n{FILES[script]}")
        for night in (FIRST + timedelta(days=place) for place in range(nights)):
            options = NightOptions(
                file=folder / "cluster.yaml",
                suite=str(folder / "suite.yaml"),
                results=str(folder / "results"),
                night=night,
            )
            machine = read_fake_machine(folder / f"{script}.yaml", night)
            run_night(options, {}, Console(file=io.StringIO()), machine)
        written = sorted((folder / "results/nightly/june").glob("night-*.json"))
        return [from_json(json.dumps(json.loads(each.read_text())["content"])) for each in written]


if __name__ == "__main__":
    run(june)
