"""A page as one HTML file that needs no network.

Names come from users, so nothing of theirs is ever markup: all data lies in one block of escaped
JSON, the script writes it as text, and a content security policy lets no script run but the two
that are known by their hash.
"""

import base64
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from string import Template

import vl_convert

from cudnn_sweep.analysis.report.figures.palette import LIGHT, css, css_of_both

ANALYSIS = files("cudnn_sweep.analysis")
PIECES = ("report/pieces.js",)
LOOKS = ("report/report.css",)
PRINTED = f"@media print {{ :root {{ {css(LIGHT)} }} }}\n"
EMBED = "window.vegaEmbed = vegaEmbed;"  # what pieces.js needs of the bundle
# JSON that no parser of HTML takes for the end of its block, nor one of scripts for a line's end.
ESCAPES = {character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def single_file(template: str, *, script: str, data: Mapping[str, object]) -> str:
    """The page of these files, each named from the folder `analysis`."""
    libraries, own = _libraries(), _joined((*PIECES, script))
    return Template(_joined((template,))).substitute(
        policy=_policy(libraries, own),
        style=css_of_both() + PRINTED + _joined(LOOKS),
        data=escaped_json(data),
        libraries=libraries,
        script=own,
    )


def escaped_json(data: object) -> str:
    """Compact JSON that may stand within a script block."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character, escape in ESCAPES.items():
        text = text.replace(character, escape)
    return text


@cache
def _libraries() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script. Making it takes a second, so the user's cache keeps it."""
    kept = Path.home() / ".cache/cudnn-sweep" / f"vega-{version('vl-convert-python')}.js"
    with suppress(OSError):
        return kept.read_text(encoding="utf-8")
    made = vl_convert.javascript_bundle(EMBED)
    with suppress(OSError):
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = kept.with_suffix(f".{os.getpid()}")
        part.write_text(made, encoding="utf-8")
        part.replace(kept)
    return made


def _joined(names: Sequence[str]) -> str:
    return "\n".join(ANALYSIS.joinpath(name).read_text() for name in names)


def _policy(*scripts: str) -> str:
    """Vega sets style attributes as it draws, hence 'unsafe-inline' for styles. It runs without eval:
    pieces.js has it interpret its expressions.
    """
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in scripts)
    return f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:"


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
