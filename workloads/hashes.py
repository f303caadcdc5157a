"""Hashes that are the same on every machine and in every process."""

import json
import zlib
from hashlib import blake2b


def content_hash(content: object) -> str:
    return text_hash(json.dumps(content, sort_keys=True))


def checksum(content: object) -> str:
    return f"{zlib.crc32(json.dumps(content, sort_keys=True).encode()):08x}"


def text_hash(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()
