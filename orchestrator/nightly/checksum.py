"""JSON beside the checksum of what it says, however it is laid out: `{"crc32": ..., "content": ...}`."""

import json

from cudnn_sweep.workloads.hashes import checksum

BY_HAND = "edited"
"""The checksum to write after an edit by hand."""


def with_checksum(text: str) -> str:
    """Return the text of a file with this JSON and its checksum."""
    return f'{{"crc32": "{checksum(json.loads(text))}", "content":\n{text}}}\n'


def content_of(text: str) -> str:
    """Return the JSON in a file's text. Raises ValueError if its checksum does not fit."""
    file = json.loads(text)
    if not isinstance(file, dict) or file.keys() != {"crc32", "content"}:
        raise ValueError('it is not {"crc32": ..., "content": ...}')
    if file["crc32"] not in (checksum(file["content"]), BY_HAND):
        raise ValueError(
            f'its checksum does not fit: it is damaged, or was edited without "crc32": "{BY_HAND}"'
        )
    return json.dumps(file["content"])
