"""The body of an issue in Markdown, ready to paste: what was seen, with which versions, and the script."""

from collections.abc import Mapping

from cudnn_sweep.analysis.asking.formats import escaped
from cudnn_sweep.orchestrator.reproducing.reproduced import Reproduced
from cudnn_sweep.orchestrator.reproducing.script import script


def issue(case: Reproduced, today: Mapping[str, str | None]) -> str:
    """`today`: what the store or this machine says of versions, route and times; what is unknown is left
    out. Ends in a line break.
    """
    facts = {key: value for key, value in {**today, **case.stored}.items() if value}
    said = [f"Reported: {case.address}"] if case.address else []
    said += [f"Claim: {case.claim}"] if case.claim else []
    lines = [
        f"### {escaped(case.title)}",
        "",
        *said,
        *([""] if said else []),
        "| | |",
        "|---|---|",
        *(f"| {key} | {escaped(value)} |" for key, value in facts.items()),
        "",
        "To reproduce it with torch alone (five fresh processes a setting, each time printed):",
        "",
        "```python",
        script(case).rstrip(),
        "```",
    ]
    return "\n".join(lines) + "\n"
