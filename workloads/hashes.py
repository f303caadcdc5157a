"""Hashes of content: what is equal has equal ids, on every machine and in every process."""

import json
from hashlib import blake2b


def content_hash(content: object) -> str:
    """A short hash that is the same for the same content in every process."""
    return text_hash(json.dumps(content, sort_keys=True))


def text_hash(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()
