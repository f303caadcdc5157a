"""docs/notebook.ipynb with what its cells show, as Jupyter stores it: run as one, from this folder."""

import ast
import json
import os
from contextlib import chdir
from pathlib import Path

DOCS = Path(__file__).resolve().parent
NOTEBOOK = DOCS / "notebook.ipynb"


def notebook() -> str:
    """The notebook's own cells, run anew."""
    found = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    codes = [cell for cell in found["cells"] if cell["cell_type"] == "code"]
    with chdir(DOCS):
        for number, cell in enumerate(codes, start=1):
            cell["execution_count"] = number
            cell["outputs"] = outputs(run("".join(cell["source"]), names), number)
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def run(source: str, names: dict[str, object]) -> object:
    """The value of the last line, an expression or nothing."""
    *before, last = ast.parse(source).body
    if not isinstance(last, ast.Expr):
        before, last = [*before, last], None
    exec(compile(ast.Module(before, []), str(NOTEBOOK), "exec"), names)  # noqa: S102 its own cells
    return last and eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)


def outputs(value: object, number: int) -> list[dict[str, object]]:
    if value is None:
        return []
    data = {"text/plain": lines(repr(value))}
    if html := getattr(value, "_repr_html_", None):
        data["text/html"] = lines(html())
    return [
        {
            "output_type": "execute_result",
            "execution_count": number,
            "data": data,
            "metadata": {},
        }
    ]


def lines(text: str) -> list[str]:
    return text.replace(str(DOCS) + os.sep, "").splitlines(keepends=True)
