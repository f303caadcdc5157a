"""`metadata.sweep.nightly` of a launch file: what `sweep nightly` runs, and whom it tells."""

import re
from typing import Literal

from pydantic import BaseModel, NonNegativeFloat, PositiveFloat, model_validator

USER = re.compile(r"(\w+:)?/*[^/]*@")  # before the host of a URL


class WebhookKeys(BaseModel, frozen=True, extra="forbid"):
    """The URL is a secret, since anyone who has it can post. So the file says only where to find
    it: in `url_env` or in `url_file`.
    """

    url_env: str | None = None
    """A variable of the environment that holds the URL."""
    url_file: str | None = None
    """A file whose one line is the URL."""
    form: Literal["json", "slack"] = "json"
    """What is posted: the whole outcome as JSON, or a message for Slack."""

    @model_validator(mode="after")
    def _one_source(self) -> "WebhookKeys":
        # Of the whole, not of a key: an error shows what stands at its key, which may be the URL.
        if (self.url_env is None) == (self.url_file is None):
            raise ValueError("give `url_env` or `url_file`, one of them")
        if self.url_env is not None and not self.url_env.isidentifier():
            raise ValueError("`url_env` takes the name of a variable that holds the URL")
        if self.url_file is not None and "://" in self.url_file:
            raise ValueError("`url_file` takes the path of a file that holds the URL")
        return self


class NightlyKeys(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """What a night measures, and what it compares with."""

    suite: str = "nightly"
    """The suite that a night runs: bundled, or a .yaml file."""
    budget_minutes: PositiveFloat = 60.0
    """No new block starts after this long."""
    wait_minutes: NonNegativeFloat = 30.0
    """How long a GPU of this machine that others work on is waited for, before the budget begins."""
    last_good: str | None = None
    """The Python of a virtual environment whose software counts as good."""
    name: str | None = None
    """Name of the nights, needed if launch files share results. Default: the `cluster_name`, or the
    file's name."""
    webhook: WebhookKeys | None = None
    """Where the outcome of a night is posted."""
    report_url: str | None = None
    """Where the folder of its reports is served, for the message: it links DATE/night.html below it."""

    @model_validator(mode="after")
    def _link_without_key(self) -> "NightlyKeys":
        # Of the whole, as above: the link stands in a message that many read.
        if self.report_url and USER.match(self.report_url):
            raise ValueError("`report_url` takes a URL without user and password")
        return self
