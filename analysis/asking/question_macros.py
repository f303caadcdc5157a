"""Each question as a table macro of its name, so that SQL can go on from it:

    select problem, ratio from helps_or_hurts(min_effect := 0.05) where device_verdict = 'helps'

Within a macro a column that is called like a parameter cannot be named. So a parameter that is called like a
column of `records` has `of_` before its name: `helps_or_hurts(of_sweep_id := 'june')`.
"""

import re
from collections.abc import Mapping
from functools import cache

from cudnn_sweep.analysis.asking.queries import NamedQuery, QueryParameter, load_query, query_names
from cudnn_sweep.analysis.asking.sql_text import literal
from cudnn_sweep.analysis.storing.schema import arrow_schema

OTHER_COLUMNS = ("launch",)  # of questions, not of `records`


@cache
def question_macros() -> Mapping[str, str]:
    """Statements by the macros' names."""
    return {name: _macro(load_query(name)) for name in query_names()}


def macro_parameter(parameter: QueryParameter) -> str:
    """What it is called there."""
    is_column = parameter.name in (*arrow_schema().names, *OTHER_COLUMNS)
    return f"of_{parameter.name}" if is_column else parameter.name


def _macro(asked: NamedQuery) -> str:
    lines = [line for line in asked.sql.splitlines() if not line.startswith("--")]
    body = "\n".join(lines).strip().removesuffix(";")
    for each in asked.parameters:
        body = re.sub(rf"\${each.name}\b", macro_parameter(each), body)
    defaults = [f"{macro_parameter(each)} := {literal(each.default)}" for each in asked.parameters]
    return f"create or replace macro {asked.name}({', '.join(defaults)}) as table\n{body};\n"
