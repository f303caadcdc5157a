"""Checks that locations of results contain no access key, because reports and logs show them."""

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
}  # allowed options of URLs; any other option could contain an access key
PLAIN = re.compile(r"[\w.:/-]*")  # a value that cannot contain `user:password@`
HOW_ELSE = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, ~/.aws/credentials, or a role",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS in the environment, or the machine's service account",
    "abfs": "the environment (AZURE_CLIENT_ID, ...), or a managed identity",
}
ALIASES = {"gcs": "gs", "abfss": "abfs", "viewfs": "hdfs"}
REFERENCE = Path(__file__).parents[1] / "reference"
"""Folder of the bundled results, which were measured on H200 and H100 GPUs."""


@dataclass(frozen=True, slots=True)
class Location:
    """A path or a URL of results. Raises StoreError if it is invalid or may contain a key."""

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
            raise StoreError(f"results location {self.shown} is not a valid URL: {error}") from None
        kind = ALIASES.get(parts.scheme, parts.scheme)
        # in abfs://container@account, the part before @ is not a user
        is_name = kind == "abfs" or (kind == "gs" and who == "anonymous")
        harmless = HARMLESS.get(kind, "").split()
        odd = [
            name if value.strip("=") else "without a value"  # not the name, which may be the key
            for name, value in parse_qsl(parts.query, keep_blank_values=True)
            if name not in harmless or not PLAIN.fullmatch(value)
        ]
        if parts.fragment:
            odd.append("after #")
        # a secret key may contain a slash, for example s3://NAME:SEC/RET@bucket
        misplaced = (not parts.netloc or ":" in parts.netloc) and "@" in parts.path
        fault = "the URL has a user name or a key"
        if odd:
            fault = f"the option {odd[0]} could contain an access key"
        elif password is None and (not who or is_name) and (not misplaced or self.is_local):
            return
        raise StoreError(
            f"results location {self.shown}: {fault}, and reports and logs would show it. Pass "
            f"keys through {HOW_ELSE.get(kind, 'the environment')}. Options that the URL may have: "
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
        """Return the location without parts that may contain a key."""
        scheme, separator, rest = self.text.partition("://")
        if not separator:
            return self.text
        place = re.split("[?#]", rest)[0]
        host, slash, path = place.partition("/")
        if not host or ":" in host:
            return f"{scheme}://{place.rpartition('@')[2]}"
        return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
