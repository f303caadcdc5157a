"""Hashes of content: equal content has equal ids, on every machine and in every process."""

import json
from hashlib import blake2b


def content_hash(content: object) -> str:
    """Return a short hash of content that JSON can write."""
    return text_hash(json.dumps(content, sort_keys=True))


def text_hash(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()
