"""Location of results as a user writes it: a folder's path, or a URL of an object store's prefix.

Refuses a location that may hold an access key: reports, logs and commands show locations.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from cudnn_sweep.analysis.errors import StoreError

HARMLESS = {
    "s3": "region scheme endpoint_override allow_bucket_creation allow_bucket_deletion force_virtual_addressing",
    "gs": "scheme endpoint_override retry_limit_seconds project_id",
    "abfs": "blob_storage_authority dfs_storage_authority blob_storage_scheme dfs_storage_scheme enable_tls "
    "credential_kind tenant_id client_id",
    "hdfs": "user replication",
}  # options in Arrow's URLs that hold no key; any other option may hold one
PLAIN = re.compile(r"[\w.:/-]*")  # a value without user and password before a host
HOW_ELSE = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, ~/.aws/credentials, or a role",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS in the environment, or the machine's service account",
    "abfs": "the environment (AZURE_CLIENT_ID, ...), or a managed identity",
}
ALIASES = {"gcs": "gs", "abfss": "abfs", "viewfs": "hdfs"}
REFERENCE = Path(__file__).parents[1] / "reference"
"""Folder of bundled records from H200s and H100s; see docs/networks.md and docs/field.md."""


@dataclass(frozen=True, slots=True)
class Location:
    """A checked location. Raises StoreError if `text` is invalid or may hold credentials."""

    text: str

    def __post_init__(self) -> None:
        if "\0" in self.text:
            raise StoreError(f"results location {self.text!r}: a path cannot contain NUL")
        if not self.is_url:
            return
        try:
            parts = urlsplit(self.text)
            who, password = parts.username, parts.password
        except ValueError as error:
            raise StoreError(f"results location: {self.shown} is no URL: {error}") from None
        kind = ALIASES.get(parts.scheme, parts.scheme)
        # in abfs://container@account a name stands where other URLs have the user
        is_name = kind == "abfs" or (kind == "gs" and who == "anonymous")
        harmless = HARMLESS.get(kind, "").split()
        odd = [
            name if value.strip("=") else "without a value"  # the name may be the key
            for name, value in parse_qsl(parts.query, keep_blank_values=True)
            if name not in harmless or not PLAIN.fullmatch(value)
        ]
        if parts.fragment:
            odd.append("after #")
        # a secret key may hold a slash: s3://NAME:SEC/RET@bucket
        misplaced = (not parts.netloc or ":" in parts.netloc) and "@" in parts.path
        fault = "the URL has a user name or a key"
        if odd:
            fault = f"the option {odd[0]} could hold an access key"
        elif password is None and (not who or is_name) and (not misplaced or self.is_local):
            return
        raise StoreError(
            f"results location {self.shown}: {fault}, which reports and logs would show; give keys "
            f"by {HOW_ELSE.get(kind, 'the environment')}; options that the URL may have: "
            f"{', '.join(harmless) or 'none'}"
        )

    @property
    def is_url(self) -> bool:
        return "://" in self.text

    @property
    def is_local(self) -> bool:
        return not self.is_url or urlsplit(self.text).scheme == "file"

    @property
    def folder(self) -> Path:
        assert self.is_local, self.text
        return Path(unquote(urlsplit(self.text).path) if self.is_url else self.text).expanduser()

    @property
    def shown(self) -> str:
        """Return the location without any part that may be a key."""
        scheme, separator, rest = self.text.partition("://")
        if not separator:
            return self.text
        place = re.split("[?#]", rest)[0]
        host, slash, path = place.partition("/")
        if not host or ":" in host:
            return f"{scheme}://{place.rpartition('@')[2]}"
        return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
