"""Writes an answer as OpenMetrics, for Prometheus, Grafana and node_exporter.

The text is also valid in the older format that node_exporter's textfile collector reads.
https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md
"""

from collections.abc import Iterator

from cudnn_sweep.analysis.answers.answer import Answer, AnswerFormat, Family

ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def to_openmetrics(answer: Answer) -> str:
    code = Family(name="exit_code", meaning="docs/exit-codes.md", samples=[({}, answer.code)])
    lines = [line for family in (code, *answer.families) for line in _lines(answer, family)]
    return "\n".join([*lines, "# EOF"]) + "\n"


def _lines(answer: Answer, family: Family) -> Iterator[str]:
    name = f"cudnn_sweep_{answer.kind}_{family.name}"
    yield f"# HELP {name} {family.meaning}"
    yield f"# TYPE {name} gauge"
    for labels, value in family.samples:
        pairs = {**(answer.labels or {"model": answer.subject}), **labels}.items()
        text = ",".join(f'{label}="{text.translate(ESCAPES)}"' for label, text in pairs)
        yield f"{name}{{{text}}} {float(value)!r}"


FORMAT = AnswerFormat(suffix=".prom", render=to_openmetrics)
