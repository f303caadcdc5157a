"""Tells a URL what a night found: as JSON, or as a message in Slack.

The URL is a secret. Only its scheme and host stand in what is raised, logged or shown.
"""

import json
import random
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from threading import Thread
from typing import IO, Literal
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from cudnn_sweep.cluster.nightly_keys import WebhookKeys
from cudnn_sweep.orchestrator.errors import SpecError, WebhookError
from cudnn_sweep.orchestrator.nightly.news import News, json_body, slack_body

KEY = "metadata.sweep.nightly.webhook"
BODIES = {"json": json_body, "slack": slack_body}


@dataclass(frozen=True, kw_only=True, slots=True)
class Webhook:
    url: str = field(repr=False)
    form: Literal["json", "slack"]

    @property
    def shown(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Patience:
    tries: int = 5
    first_pause_s: float = 2.0
    """The pause doubles from try to try."""
    try_limit_s: float = 10.0
    """Limit of a whole try, however its answer comes."""
    limit_s: float = 120.0
    """Limit of all tries and pauses together: no pause ends later than this."""


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
    if not _is_plain_url(url):
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


def tell(webhook: Webhook, news: News, patience: Patience | None = None) -> None:
    """Post the news; again after a pause where the other side cannot be reached or is too busy.

    A try whose answer got lost is made again, so that a message may arrive twice. Raises
    WebhookError where it was refused or the patience is at its end.
    """
    patience = patience or Patience()
    body = json.dumps(BODIES[webhook.form](news), allow_nan=False).encode()
    request = Request(
        webhook.url,
        data=body,
        headers={"Content-Type": "application/json", "User-Agent": "cudnn-sweep"},
        method="POST",
    )
    end = time.monotonic() + patience.limit_s
    for number in range(1, patience.tries + 1):
        failure = _try_in_time(request, patience.try_limit_s)
        if failure is None:
            return
        pause_s = failure.pause_s or _pause_s(patience, number)
        last = number == patience.tries or time.monotonic() + pause_s > end
        if last or not failure.is_passing:
            raise WebhookError(
                f"{webhook.shown}: {failure.text}; {number} of {patience.tries} tries"
            )
        time.sleep(pause_s)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Failure:
    text: str
    is_passing: bool
    """Whether another try may succeed."""
    pause_s: float | None = None
    """The pause that the other side asks for; None where it asks for none."""


def _try_in_time(request: Request, limit_s: float) -> _Failure | None:
    """A socket's limit is of its silence: an answer may come a byte at a time for ever."""
    came: list[_Failure | None] = []
    thread = Thread(target=lambda: came.append(_try(request, limit_s)), daemon=True)
    thread.start()
    thread.join(limit_s)
    if came:
        return came[0]
    return _Failure(text=f"gave no whole answer in {limit_s:g} s", is_passing=True)


def _try(request: Request, limit_s: float) -> _Failure | None:
    try:
        with OPENER.open(request, timeout=limit_s):
            return None
    except HTTPError as error:
        with error:
            return _refused(error.code, error.headers.get("Retry-After"))
    except URLError as error:
        return _unreached(error.reason)
    except (OSError, HTTPException) as error:  # while the answer was read
        return _unreached(error)


def _refused(code: int, retry_after: str | None) -> _Failure:
    known = {status.value: status.phrase for status in HTTPStatus}
    busy = code == HTTPStatus.TOO_MANY_REQUESTS or code >= HTTPStatus.INTERNAL_SERVER_ERROR
    return _Failure(
        text=f"answered {code} {known.get(code, '')}".rstrip(),
        is_passing=busy,
        pause_s=_asked_pause_s(retry_after),
    )


def _unreached(reason: object) -> _Failure:
    """Say no more of the error than its kind and the system's own words: others may quote the URL."""
    text = type(reason).__name__
    if isinstance(reason, OSError) and reason.strerror:
        text = f"{text}, {reason.strerror}"
    return _Failure(text=text, is_passing=not isinstance(reason, ssl.SSLCertVerificationError))


def _asked_pause_s(retry_after: str | None) -> float | None:
    """Retry-After is seconds or a date."""
    if retry_after is None:
        return None
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        asked = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    return max(0.0, (asked.replace(tzinfo=asked.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _pause_s(patience: Patience, number: int) -> float:
    """With up to a quarter more: several machines' nights do not end in step."""
    whole: float = patience.first_pause_s * 2 ** (number - 1)
    return whole * random.uniform(1.0, 1.25)


class _NoRedirect(HTTPRedirectHandler):
    """A redirected POST becomes a GET, which is answered and tells nobody."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


OPENER = build_opener(_NoRedirect)
