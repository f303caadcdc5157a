"""What a night tells: in the terminal, and to a URL as JSON, as a message in Slack, or through apprise.

The URL is a secret. Only its scheme and host stand in what is raised, logged or shown.
"""

import json
import logging
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from pathlib import Path
from threading import Thread
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from rich.console import Console
from urllib3 import PoolManager, ProxyManager, Retry, Timeout, make_headers
from urllib3.exceptions import HTTPError
from urllib3.util import parse_url

from cudnn_sweep.analysis.nightly.outcome import Finding, NightOutcome
from cudnn_sweep.analysis.nightly.reports.report import to_json
from cudnn_sweep.analysis.nightly.reports.sections import OneChange, Section, headline, one_by_one
from cudnn_sweep.analysis.nightly.reports.words import Group, finding_texts, notes
from cudnn_sweep.analysis.words import one_line, printable
from cudnn_sweep.orchestrator.errors import SpecError, WebhookError
from cudnn_sweep.orchestrator.planning.spec import WebhookKeys
from cudnn_sweep.orchestrator.showing.say import say

STYLES: dict[Group | None, str] = {
    "alert": "bold red",
    "changed": "cyan",
    "waiting": "yellow",
    "better": "green",
    "refuted": "dim",
}
STATE_STYLES = {
    "fine": "bold green",
    "learning": "bold cyan",
    "regression": "bold red",
    "could_not_tell": "bold yellow",
}
Json: TypeAlias = "None | bool | float | str | Sequence[Json] | Mapping[str, Json]"
MOST_CHARACTERS = 38_000  # Slack takes 40,000 of one text
ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
KEY = "metadata.sweep.nightly.webhook"
TRIES = 5
PAUSE_S = 2.0  # the second try comes at once, the third after twice this; then the pause doubles
SILENCE_S = 10.0  # in a try
LIMIT_S = 120.0  # for all tries and pauses together, however an answer comes


@dataclass(frozen=True, kw_only=True, slots=True)
class News:
    headline: str
    """One line."""
    findings: tuple[str, ...]
    """The findings for people, a few lines each."""
    result: Mapping[str, Json]
    """The night's JSON, for programs; Slack does not get it."""


def slack_body(news: News) -> Mapping[str, Json]:
    text = "\n\n".join([f"*{news.headline}*", *news.findings]).translate(ESCAPES)
    return {"text": text[:MOST_CHARACTERS]}


BODIES: Mapping[str, Callable[[News], Mapping[str, Json]]] = {"json": asdict, "slack": slack_body}


@dataclass(frozen=True, kw_only=True, slots=True)
class Webhook:
    url: str = field(repr=False)
    form: Literal["json", "slack", "apprise"]

    @property
    def shown(self) -> str:
        """Apprise's URLs have the secret anywhere behind the scheme."""
        if self.form == "apprise":
            return f"{self.url.partition('://')[0]}://"
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"


def find_webhook(keys: WebhookKeys, environment: Mapping[str, str]) -> Webhook:
    """Raises SpecError, which never shows what was found in place of a URL."""
    if keys.url_env is not None:
        where, found = f"{KEY}.url_env: {keys.url_env}", environment.get(keys.url_env)
        if found is None:
            raise SpecError(f"{where} is not set in the environment")
    else:
        path = Path(keys.url_file or "").expanduser()
        where = f"{KEY}.url_file: {path}"
        try:
            found = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise SpecError(f"{where} cannot be read: {type(error).__name__}") from None
    url = found.strip()
    if keys.form == "apprise":
        if not _apprise(url):
            raise SpecError(f"{where} holds no URL that apprise knows")
    elif not _is_plain_url(url):
        raise SpecError(f"{where} holds no https:// or http:// URL without user name, in one line")
    return Webhook(url=url, form=keys.form)


def _is_plain_url(url: str) -> bool:
    """What others refuse with the whole URL in their message is refused here."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - reading it checks it
    except ValueError:
        return False
    readable = url.isascii() and url.isprintable() and " " not in url
    host_alone = bool(parts.hostname) and parts.username is None
    return readable and host_alone and parts.scheme in ("http", "https")


def tell(webhook: Webhook, news: News) -> None:
    """Post the news, and again after a pause if the other side cannot be reached or is too busy.

    A try whose answer got lost is repeated, so a message may arrive twice. Raises WebhookError if the news was
    refused, or after LIMIT_S.
    """
    failures = [f"gave no whole answer in {LIMIT_S:g} s"]
    send = _notify if webhook.form == "apprise" else _post
    # A timeout limits silence alone: an answer may come a byte at a time for ever.
    thread = Thread(target=lambda: failures.append(send(webhook, news)), daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    if failures[-1]:
        raise WebhookError(f"{webhook.shown}: {failures[-1]}")


def _notify(webhook: Webhook, news: News) -> str:
    """Return what went wrong, or nothing. Apprise tries once, with limits of its own.

    A name in the text is no markup, and mentions nobody: a character of no width follows each @.
    """
    title, body = (
        text.replace("@", "@\u200b") for text in (news.headline, "\n\n".join(news.findings))
    )
    sent = _apprise(webhook.url).notify(title=title, body=body, body_format="text")
    return "" if sent else "apprise could not send it"


def _apprise(url: str) -> Any:
    """What sends to the URL; false where apprise does not know its kind."""
    try:
        from apprise import Apprise
    except ImportError:
        raise SpecError(f"{KEY}.form: apprise needs `pip install apprise`") from None
    for name in ("apprise", "urllib3"):  # their messages have parts of the URL
        logging.getLogger(name).setLevel(logging.CRITICAL)
    sender = Apprise()
    sender.add(url)
    return sender


def _post(webhook: Webhook, news: News) -> str:
    """What went wrong, or nothing."""
    body = json.dumps(BODIES[webhook.form](news), allow_nan=False).encode()
    logging.getLogger("urllib3").setLevel(logging.CRITICAL)  # its messages have the URL's path
    retries = Retry(
        TRIES - 1,
        allowed_methods=None,
        status_forcelist={HTTPStatus.TOO_MANY_REQUESTS, *range(500, 1000)},
        raise_on_status=False,
        backoff_factor=PAUSE_S,
        backoff_jitter=PAUSE_S / 4,  # several machines' nights do not end in step
    )
    try:
        with (
            _pool(webhook.url) as pool,
            pool.request(
                "POST",
                webhook.url,
                body=body,
                headers={"Content-Type": "application/json", "User-Agent": "cudnn-sweep"},
                redirect=False,  # a redirected POST becomes a GET, which is answered and tells nobody
                preload_content=False,
                timeout=Timeout(SILENCE_S),
                retries=retries,
            ) as response,
        ):
            status = response.status
    except (HTTPError, OSError, OverflowError) as error:  # the last of a pause of many years
        return _failure(error)
    phrases = {each.value: each.phrase for each in HTTPStatus}
    return "" if 200 <= status < 300 else f"answered {status} {phrases.get(status, '')}".rstrip()


def _pool(url: str) -> PoolManager:
    """Through the environment's proxy, if it names one for this host."""
    parts = urlsplit(url)
    proxy = None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)
    if proxy is None:
        return PoolManager()
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    login = parse_url(proxy).auth
    headers = make_headers(proxy_basic_auth=unquote(login)) if login else None
    return ProxyManager(proxy, proxy_headers=headers)


def _failure(error: Exception) -> str:
    """Only the error's kind and the system's own words: others may quote the URL."""
    reason = getattr(error, "reason", None) or error
    text = type(reason).__name__
    system = reason.__cause__ or reason
    if isinstance(system, OSError) and system.strerror:
        text = f"{text}, {system.strerror}"
    return text


@dataclass(frozen=True, kw_only=True, slots=True)
class WhereToLook:
    """What the commands and the link of a message need."""

    folder: Path
    """Where the commands are to be typed."""
    program: str
    results: str
    page: str
    """URL or path of the night's page."""


def print_outcome(
    outcome: NightOutcome,
    answer: str,
    found: Sequence[Section],
    reports: Sequence[Path],
    console: Console,
) -> None:
    """`answer` and `found` are the outcome's headline and sections."""
    say(console, answer, STATE_STYLES[outcome.state])
    for section in found:
        say(console, f"\n{section.title}", STYLES.get(section.group, "bold"))
        changes = [[each.told, *each.details] for each in section.changes]
        for lines in (*([each] for each in section.reasons), *changes):
            say(console, "\n    ".join(map(one_line, lines)))
        for words in section.notes:
            say(console, one_line(" ".join(words)))
        for name, *values in section.rows:
            say(console, one_line(f"{name}: {' → '.join(values)}"))
    say(console, f"\nReports: {', '.join(map(str, reports))}")


def news_of(outcome: NightOutcome, fresh: Collection[Finding], where: WhereToLook) -> News:
    """`fresh`: the findings that were not sent before."""
    new = [each for each in finding_texts(outcome) if each.finding in fresh]
    as_before = [f"{outcome.fine_series:,} series are as they were."] if new else []
    findings = (
        *(_lines(change, where) for change in one_by_one(new)),
        *outcome.reasons,
        *notes(outcome),
        "\n".join([*as_before, f"Page: {where.page}"]),
    )
    return News(
        headline=one_line(headline(outcome, fresh)),
        findings=tuple(map(printable, findings)),
        result=json.loads(to_json(outcome)),
    )


def _lines(change: OneChange, where: WhereToLook) -> str:
    there = f"cd {shlex.quote(str(where.folder))} && "
    *lines, command = [change.told, *change.details]
    if change.versions is not None:
        words = [where.program, "compare", *change.versions, "--results", where.results]
        lines.append(f"Which version: {there}{shlex.join(words)}")
    return "\n".join(map(one_line, [*lines, f"Measure again: {there}{command}"]))
