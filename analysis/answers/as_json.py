"""Writes an answer as JSON, with each key on a line of its own."""

import json
from collections.abc import Mapping

from cudnn_sweep.analysis.answers.answer import Answer, AnswerFormat
from cudnn_sweep.analysis.engine.formats import json_value

DIGITS = 9  # number of significant digits. Further digits depend on the order of sums


def to_json(answer: Answer) -> str:
    values = {"headline": answer.headline, "exit_code": answer.code, **answer.values}
    exact = json.dumps(json_value(values))
    return lines_of(json.loads(exact, parse_float=lambda text: float(f"{float(text):.{DIGITS}g}")))


def lines_of(values: Mapping[str, object]) -> str:
    lines = [f" {json.dumps(name)}: {_text(json_value(value))}" for name, value in values.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _text(value: object) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        rows = ",\n".join(f"  {_text(row)}" for row in value)
        return f"[\n{rows}\n ]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


FORMAT = AnswerFormat(suffix=".json", render=to_json)
