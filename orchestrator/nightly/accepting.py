"""What somebody says of a launch file's nights: from which on they are compared, and which confirmed changes
are accepted, so that from a date on their series start anew.
"""

from datetime import date

from cudnn_sweep.analysis.nightly.outcome import Acceptance, NightOutcome
from cudnn_sweep.analysis.nightly.reports.words import meaning
from cudnn_sweep.analysis.nightly.shared import SHARED
from cudnn_sweep.analysis.storing.store import open_store
from cudnn_sweep.cluster.launch_file import read_launch_file
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.nightly.diary import Diary
from cudnn_sweep.orchestrator.planning.night_name import (
    NightName,
    is_night_of,
    launch_name,
    read_date,
)
from cudnn_sweep.orchestrator.planning.options import NightOptions
from cudnn_sweep.orchestrator.planning.spec import SweepSpec

MOST_NAMED = 10  # of what could have been meant


def accept_change(options: NightOptions, what: str, first: str | None, reason: str | None) -> str:
    """In words what is accepted: of the last night the alert of a series, or those of a cell or metric.

    Raises SpecError where there is none, or the date or the reason is no good.
    """
    if first is None or not (reason or "").strip():
        raise SpecError(
            f"--accept {what}: needs --from DATE, the first night of what is accepted, and --reason TEXT"
        )
    night = read_date(first, "--from")
    diary = _diary(options)
    last = diary.last()
    if last is None:
        raise SpecError(f"--accept {what}: there is no night of {diary.launch} yet")
    accepted = _accepted(last, what, night, str(reason).strip())
    diary.accept(accepted)
    named = "; ".join(
        f"{each.key.cell} · {each.key.settings}: {meaning(each.key)}"
        for each in accepted[:MOST_NAMED]
    )
    more = f"; and {len(accepted) - MOST_NAMED} more" if accepted[MOST_NAMED:] else ""
    return f"Accepted from {night} on: {named}{more}. The next night compares with the nights since then."


def _accepted(last: NightOutcome, what: str, night: date, reason: str) -> list[Acceptance]:
    alerts = [
        finding
        for finding in (*last.findings, *last.members)
        if finding.is_alert
        and finding.key.metric != SHARED
        and what in (finding.key.series_id, finding.key.cell_id, finding.key.metric, finding.shared)
    ]
    if not alerts:
        allowed = [f"{each.key.series_id} ({each.key.cell})" for each in last.alerts[:MOST_NAMED]]
        raise SpecError(
            f"--accept {what}: no alert of {last.night} is of such a series, cell or metric; "
            f"its alerts: {', '.join(allowed) or 'none'}"
        )
    if night > last.date:
        raise SpecError(f"--from {night}: is after the last night, {last.date}")
    return [
        Acceptance(key=alert.key, first=night, reason=reason, told_on=last.date) for alert in alerts
    ]


def pin_baseline(options: NightOptions, first: date | None) -> str:
    """In words what is pinned now; None unpins. Raises SpecError where there is no such night."""
    diary = _diary(options)
    launch = diary.launch
    if first is None:
        diary.unpin()
        return f"Nights of {launch} are compared with the month before them."
    name = NightName(date=first, launch=launch)
    nights = [each for each in diary.store.sweep_ids() if is_night_of(each, launch)]
    if name.sweep_id not in nights:
        found = ", ".join(nights[-5:]) or "none"
        raise SpecError(f"--pin {first}: there is no {name.sweep_id}; the last nights: {found}")
    diary.pin(first)
    return f"Nights of {launch} are compared with the month from {first} on."


def _diary(options: NightOptions) -> Diary:
    file = read_launch_file(options.file, SweepSpec)
    return Diary(store=open_store(options.results or file.sweep.results), launch=launch_name(file))
