"""Location: where results lie, as a user names it: a folder, or the URL of one in an object store.

Locations stand in reports, logs and commands to repeat, which are shared: one that holds a key is refused.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from cudnn_sweep.analysis.errors import StoreError

SECRET = re.compile(r"secret|passw|token|credential|signature|sas|key", re.IGNORECASE)
LOCAL_SCHEME = "file"
HOW_ELSE = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, ~/.aws/credentials, or a role",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS in the environment, or the machine's service account",
    "abfs": "the environment (AZURE_CLIENT_ID, ...), or a managed identity",
}
HOW_ELSE |= {"gcs": HOW_ELSE["gs"], "abfss": HOW_ELSE["abfs"]}


@dataclass(frozen=True, slots=True)
class Location:
    """Raises StoreError for text that can be none."""

    text: str

    def __post_init__(self) -> None:
        if "\0" in self.text:
            raise StoreError(f"results location {self.text!r}: no path has the character NUL")
        if "://" not in self.text:
            return
        try:
            parts = urlsplit(self.text)
            has_password = parts.password is not None
        except ValueError as error:
            raise StoreError(f"results location: {self.shown} is no URL: {error}") from None
        options = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
        if has_password or any(map(SECRET.search, options)):
            how_else = HOW_ELSE.get(parts.scheme, "the environment")
            raise StoreError(
                f"results location {self.shown}: a key stands in the URL, which reports and logs would "
                f"show; give it by {how_else}"
            )

    @property
    def is_url(self) -> bool:
        """Means the same on every machine that reaches it: an object store, or file:// and a shared disk."""
        return "://" in self.text

    @property
    def is_local(self) -> bool:
        """A folder as this machine has it."""
        return not self.is_url or urlsplit(self.text).scheme == LOCAL_SCHEME

    @property
    def folder(self) -> Path:
        """The folder of a local location; a location that is not local has none."""
        assert self.is_local, self.text
        path = unquote(urlsplit(self.text).path) if "://" in self.text else self.text
        return Path(path).expanduser()

    @property
    def shown(self) -> str:
        """Whatever it holds, without what may be a key."""
        scheme, found, rest = self.text.partition("://")
        if not found:
            return self.text
        place = rest.partition("?")[0]
        host, slash, path = place.partition("/")
        return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
