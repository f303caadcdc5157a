"""Who hears of a night: the webhook, where there is news."""

import socket
from pathlib import Path

from rich.console import Console

from cudnn_sweep.analysis.nightly.outcome import NightOutcome
from cudnn_sweep.orchestrator.errors import WebhookError
from cudnn_sweep.orchestrator.nightly.diary import as_sent_alert
from cudnn_sweep.orchestrator.nightly.news import News
from cudnn_sweep.orchestrator.nightly.night_news import WhereToLook, news_of
from cudnn_sweep.orchestrator.nightly.request import NightRequest
from cudnn_sweep.orchestrator.nightly.webhook import tell
from cudnn_sweep.orchestrator.showing.say import warn


def tell_news(asked: NightRequest, outcome: NightOutcome, console: Console) -> None:
    """Post what was not told yet. What could not be delivered is news again the next night; of a night
    that later ones followed nobody is told.
    """
    diary = asked.diary()
    if not diary.is_last(asked.name):
        return
    known = diary.sent_alerts()
    fresh = [alert for alert in outcome.alerts if as_sent_alert(alert) not in known]
    current = [as_sent_alert(alert) for alert in outcome.alerts]
    is_measured = bool(outcome.recorded_trials)  # else it says nothing of what was told before
    kept = [each for each in known if each in current or not is_measured]
    before = diary.before(asked.name, measured=False)
    is_news = bool(fresh) or outcome.new_baseline is not None or _stopped_telling(before, outcome)
    measured = diary.before(asked.name)
    is_news |= bool(outcome.skipped.keys() - (measured.skipped if measured else {}))
    if is_news and asked.keys.webhook is not None:
        untold = asked.no_webhook or _told(asked, news_of(outcome, fresh, _where(asked)))
        if untold is not None:
            warn(console, f"warning: no notification was sent: {untold}")
            fresh = []
    diary.write_sent_alerts([*kept, *map(as_sent_alert, fresh)])


def _where(asked: NightRequest) -> WhereToLook:
    page = f"{asked.name.date}/night.html"
    if asked.keys.report_url is None:
        page = f"{socket.gethostname()}:{asked.reports.absolute() / page}"
    else:
        page = f"{asked.keys.report_url.rstrip('/')}/{page}"
    options = asked.options
    return WhereToLook(folder=Path.cwd(), program=options.program, results=asked.results, page=page)


def _told(asked: NightRequest, news: News) -> str | None:
    """Why not, where it was not."""
    assert asked.webhook is not None
    try:
        tell(asked.webhook, news)
    except WebhookError as error:
        return str(error)
    return None


def _stopped_telling(before: NightOutcome | None, outcome: NightOutcome) -> bool:
    """The first night that learns is expected to, and one that cannot tell is not."""
    if outcome.state == "learning":
        return before is not None and before.state in ("fine", "regression")
    return outcome.state == "could_not_tell" and (before is None or before.state != outcome.state)
