"""Prints a night's outcome, and posts its news as JSON, to Slack or with apprise.

The URL is a secret, so errors and logs never show all of it.
"""

import json
import logging
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from http.client import responses
from pathlib import Path
from threading import Thread
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from rich.console import Console
from urllib3 import PoolManager, ProxyManager, Retry, Timeout, make_headers
from urllib3.exceptions import HTTPError
from urllib3.util import parse_url

from cudnn_sweep.analysis.answers.text import lines_of
from cudnn_sweep.analysis.nights.outcome import Finding, NightOutcome
from cudnn_sweep.analysis.nights.reports.report import to_json
from cudnn_sweep.analysis.nights.reports.sections import environment, headline, one_by_one, sections
from cudnn_sweep.analysis.nights.reports.words import finding_texts
from cudnn_sweep.analysis.words import one_line, printable
from cudnn_sweep.orchestrator.errors import SpecError, WebhookError
from cudnn_sweep.orchestrator.planning.spec import WebhookKeys
from cudnn_sweep.orchestrator.terminal.say import say

STATE_STYLES = {
    "fine": "bold green",
    "learning": "bold cyan",
    "regression": "bold red",
    "could_not_tell": "bold yellow",
}
Json: TypeAlias = "None | bool | float | str | Sequence[Json] | Mapping[str, Json]"
MOST_CHARACTERS = 38_000  # Slack's limit for a text is 40,000
ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
KEY = "metadata.sweep.nightly.webhook"
TRIES = 5
PAUSE_S = 2.0  # basis of the pauses between tries, which double each time
SILENCE_S = 10.0  # A try fails if no byte arrives for this long.
LIMIT_S = 120.0  # for all tries and pauses together


@dataclass(frozen=True, kw_only=True, slots=True)
class News:
    headline: str
    findings: tuple[str, ...]
    """Paragraphs of the message."""
    result: Mapping[str, Json]
    """The outcome as JSON. Only the form `json` sends it."""


def slack_body(news: News) -> Mapping[str, Json]:
    text = "\n\n".join([f"*{news.headline}*", *news.findings]).translate(ESCAPES)
    return {"text": text[:MOST_CHARACTERS]}


@dataclass(frozen=True, kw_only=True, slots=True)
class Webhook:
    url: str = field(repr=False)
    form: Literal["json", "slack", "apprise"]

    @property
    def shown(self) -> str:
        """Part of the URL that messages may show."""
        if self.form == "apprise":
            return f"{self.url.partition('://')[0]}://"
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"


def find_webhook(keys: WebhookKeys, environment: Mapping[str, str]) -> Webhook:
    """Return the launch file's webhook. Raises SpecError if the webhook is not usable."""
    if keys.url_env is not None:
        where, text = f"{KEY}.url_env: {keys.url_env}", environment.get(keys.url_env)
        if text is None:
            raise SpecError(f"{where} is not set in the environment")
    else:
        path = Path(keys.url_file or "").expanduser()
        where = f"{KEY}.url_file: {path}"
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise SpecError(f"{where} cannot be read: {type(error).__name__}") from None
    url = text.strip()
    if keys.form == "apprise":
        if not _apprise(url):
            raise SpecError(f"{where} contains no URL that apprise supports")
    elif not _is_plain_url(url):
        raise SpecError(f"{where} must contain one https:// or http:// URL, without a user name")
    return Webhook(url=url, form=keys.form)


def _is_plain_url(url: str) -> bool:
    """Return whether `url` is an HTTP or HTTPS URL without a user name."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - reading it checks it
    except ValueError:
        return False
    readable = url.isascii() and url.isprintable() and " " not in url
    host_alone = bool(parts.hostname) and parts.username is None
    return readable and host_alone and parts.scheme in ("http", "https")


def tell(webhook: Webhook, news: News) -> None:
    """Post the news. Raises WebhookError if the server refuses the news or does not answer. The
    news may arrive twice if an answer is lost."""
    failures = [f"gave no complete answer within {LIMIT_S:g} s"]
    send = _notify if webhook.form == "apprise" else _post
    # A thread is used because urllib3 does not limit the duration of a slow answer.
    thread = Thread(target=lambda: failures.append(send(webhook, news)), daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    if failures[-1]:
        raise WebhookError(f"{webhook.shown}: {failures[-1]}")


def _notify(webhook: Webhook, news: News) -> str:
    """Send the news by apprise. Return the failure, or "" if the news was sent."""
    # A zero-width space after each @ keeps the text from notifying people.
    texts = (news.headline, "\n\n".join(news.findings))
    title, body = (text.replace("@", "@\u200b") for text in texts)
    sent = _apprise(webhook.url).notify(title=title, body=body, body_format="text")
    return "" if sent else "apprise could not send the news"


def _apprise(url: str) -> Any:
    """Return apprise's sender. The sender is falsy if apprise does not support the URL."""
    try:
        from apprise import Apprise
    except ImportError:
        raise SpecError(f"{KEY}.form: apprise needs `pip install apprise`") from None
    for name in ("apprise", "urllib3"):  # their messages quote parts of the URL
        logging.getLogger(name).setLevel(logging.CRITICAL)
    sender = Apprise()
    sender.add(url)
    return sender


def _post(webhook: Webhook, news: News) -> str:
    """Send the news by HTTP. Return the failure, or "" if the news was sent."""
    parts = slack_body(news) if webhook.form == "slack" else asdict(news)
    body = json.dumps(parts, allow_nan=False).encode()
    logging.getLogger("urllib3").setLevel(logging.CRITICAL)  # its messages quote the URL's path
    retries = Retry(
        TRIES - 1,
        allowed_methods=None,
        status_forcelist={HTTPStatus.TOO_MANY_REQUESTS, *range(500, 1000)},
        raise_on_status=False,
        backoff_factor=PAUSE_S,
        backoff_jitter=PAUSE_S / 4,  # so that several machines do not post at once
    )
    try:
        with (
            _pool(webhook.url) as pool,
            pool.request(
                "POST",
                webhook.url,
                body=body,
                headers={"Content-Type": "application/json", "User-Agent": "cudnn-sweep"},
                redirect=False,  # a redirected POST would become a GET, without the news
                preload_content=False,
                timeout=Timeout(SILENCE_S),
                retries=retries,
            ) as response,
        ):
            status = response.status
    except (HTTPError, OSError, OverflowError) as error:  # A pause of many years overflows.
        return _failure(error)
    return "" if 200 <= status < 300 else f"answered {status} {responses.get(status, '')}".rstrip()


def _pool(url: str) -> PoolManager:
    """Return a connection pool, which uses a proxy if the environment sets one for the URL."""
    parts = urlsplit(url)
    proxy = None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)
    if proxy is None:
        return PoolManager()
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    login = parse_url(proxy).auth
    headers = make_headers(proxy_basic_auth=unquote(login)) if login else None
    return ProxyManager(proxy, proxy_headers=headers)


def _failure(error: Exception) -> str:
    """Describe an error without its message, because the message may quote the URL."""
    reason = getattr(error, "reason", None) or error
    text = type(reason).__name__
    system = reason.__cause__ or reason
    if isinstance(system, OSError) and system.strerror:
        text = f"{text}, {system.strerror}"
    return text


@dataclass(frozen=True, kw_only=True, slots=True)
class WhereToLook:
    """Values for the commands and the link in a night's message."""

    folder: Path
    """Folder in which the commands must be run."""
    program: str
    results: str
    page: str
    """URL or path of the night's page."""


def print_outcome(
    outcome: NightOutcome, reports: Sequence[Path], console: Console, results: str | None = None
) -> None:
    """Print the outcome and the paths of the reports. `results` is the value of `--results`."""
    say(console, headline(outcome), STATE_STYLES[outcome.state])
    for section in sections(outcome, results=results):
        title, *lines = lines_of(section)
        say(console, f"\n{title}", "bold")
        say(console, "\n".join(lines))
    say(console, f"\nReports: {', '.join(map(str, reports))}")


def news_of(outcome: NightOutcome, fresh: Collection[Finding], where: WhereToLook) -> News:
    """Return the news of a night. `fresh` contains the findings that were not sent before."""
    new = [text for text in finding_texts(outcome) if text.finding in fresh]
    there, findings = f"cd {shlex.quote(str(where.folder))} && ", []
    for change in one_by_one(new):
        *lines, command = [change.summary, *change.details]
        if change.versions is not None:
            words = [where.program, "compare", *change.versions, "--results", where.results]
            lines.append(f"Which version: {there}{shlex.join(words)}")
        findings.append("\n".join(map(one_line, [*lines, f"Measure again: {there}{command}"])))
    findings += outcome.reasons
    if not (changed := environment(outcome)).is_empty:
        findings.append("\n".join(lines_of(changed)))
    as_before = [f"{outcome.fine_series:,} series are as they were."] if new else []
    findings.append("\n".join([*as_before, f"Page: {where.page}"]))
    return News(
        headline=one_line(headline(outcome, fresh)),
        findings=tuple(map(printable, findings)),
        result=json.loads(to_json(outcome)),
    )
