"""Prints a night's outcome, and posts its news to a URL as JSON, to Slack or through apprise.

The URL is a secret. Errors and logs show only its scheme and host or, for apprise, only its scheme.
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
from cudnn_sweep.analysis.nights.reports.sections import (
    OneChange,
    environment,
    headline,
    one_by_one,
    sections,
)
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
PAUSE_S = 2.0  # the second try comes at once, the third after twice this; then the pause doubles
SILENCE_S = 10.0  # longest wait for a byte in one try
LIMIT_S = 120.0  # for all tries and pauses together


@dataclass(frozen=True, kw_only=True, slots=True)
class News:
    headline: str
    findings: tuple[str, ...]
    """Paragraphs of the message: findings, the outcome's reasons, changed environment, page."""
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
        """Printable part of the URL: the scheme and host or, for apprise, only the scheme."""
        if self.form == "apprise":
            return f"{self.url.partition('://')[0]}://"
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"


def find_webhook(keys: WebhookKeys, environment: Mapping[str, str]) -> Webhook:
    """Read the launch file's webhook. An unusable webhook raises SpecError, which quotes no URL."""
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
            raise SpecError(f"{where} holds no URL that apprise knows")
    elif not _is_plain_url(url):
        raise SpecError(f"{where} must hold one https:// or http:// URL, without a user name")
    return Webhook(url=url, form=keys.form)


def _is_plain_url(url: str) -> bool:
    """Return whether `url` is a plain http(s) URL. urllib3's errors quote any other URL in full."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - reading it checks it
    except ValueError:
        return False
    readable = url.isascii() and url.isprintable() and " " not in url
    host_alone = bool(parts.hostname) and parts.username is None
    return readable and host_alone and parts.scheme in ("http", "https")


def tell(webhook: Webhook, news: News) -> None:
    """Post the news. If the server is unreachable or busy, or if its answer is lost, an HTTP post
    is tried again. After a lost answer the news may arrive twice. Raises WebhookError if the server
    refuses the news, or if no try succeeds within LIMIT_S.
    """
    failures = [f"gave no whole answer in {LIMIT_S:g} s"]
    send = _notify if webhook.form == "apprise" else _post
    # urllib3's timeout limits only silence: a slow answer may take for ever.
    thread = Thread(target=lambda: failures.append(send(webhook, news)), daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    if failures[-1]:
        raise WebhookError(f"{webhook.shown}: {failures[-1]}")


def _notify(webhook: Webhook, news: News) -> str:
    """Send the news by apprise, in one try. Return the failure, or "" if the news was sent. A
    zero-width space after each @ keeps the text from notifying people.
    """
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
    """Send the news by HTTP, in up to TRIES tries. Return the failure, or "" if there is none."""
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
    except (HTTPError, OSError, OverflowError) as error:  # OverflowError: a pause of many years
        return _failure(error)
    return "" if 200 <= status < 300 else f"answered {status} {responses.get(status, '')}".rstrip()


def _pool(url: str) -> PoolManager:
    """Return a connection pool. It uses the environment's proxy for the URL's host, if any."""
    parts = urlsplit(url)
    proxy = None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)
    if proxy is None:
        return PoolManager()
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    login = parse_url(proxy).auth
    headers = make_headers(proxy_basic_auth=unquote(login)) if login else None
    return ProxyManager(proxy, proxy_headers=headers)


def _failure(error: Exception) -> str:
    """Return the error's type and the system's reason. Omit the message: it may quote the URL."""
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
    """Folder in which to type the commands."""
    program: str
    results: str
    page: str
    """URL or path of the night's page."""


def print_outcome(
    outcome: NightOutcome, reports: Sequence[Path], console: Console, results: str | None = None
) -> None:
    """Print the outcome and the reports' paths. `results` is the value of `--results`, if typed."""
    say(console, headline(outcome), STATE_STYLES[outcome.state])
    for section in sections(outcome, results=results):
        title, *lines = lines_of(section)
        say(console, f"\n{title}", "bold")
        say(console, "\n".join(lines))
    say(console, f"\nReports: {', '.join(map(str, reports))}")


def news_of(outcome: NightOutcome, fresh: Collection[Finding], where: WhereToLook) -> News:
    """Return the news of a night. `fresh` has the night's findings that were not sent before."""
    new = [text for text in finding_texts(outcome) if text.finding in fresh]
    as_before = [f"{outcome.fine_series:,} series are as they were."] if new else []
    findings = (
        *(_lines(change, where) for change in one_by_one(new)),
        *outcome.reasons,
        *(["\n".join(lines_of(changed))] if not (changed := environment(outcome)).is_empty else []),
        "\n".join([*as_before, f"Page: {where.page}"]),
    )
    return News(
        headline=one_line(headline(outcome, fresh)),
        findings=tuple(map(printable, findings)),
        result=json.loads(to_json(outcome)),
    )


def _lines(change: OneChange, where: WhereToLook) -> str:
    there = f"cd {shlex.quote(str(where.folder))} && "
    *lines, command = [change.summary, *change.details]
    if change.versions is not None:
        words = [where.program, "compare", *change.versions, "--results", where.results]
        lines.append(f"Which version: {there}{shlex.join(words)}")
    return "\n".join(map(one_line, [*lines, f"Measure again: {there}{command}"]))
