"""Writes anew what is made from the code: `make docs`. A test fails where that was forgotten.

With names it writes these documents alone, and the stored file of a new schema version.
"""

import re
import shlex
import sys
from collections.abc import Callable
from contextlib import chdir
from functools import cache, partial
from pathlib import Path
from runpy import run_path

from reference.columns import questions_page
from reference.field import field_table
from reference.page import launch_file_page
from reference.python import python_page
from reference.schema import SCHEMAS, schema_text
from typer.testing import CliRunner

from cudnn_sweep.orchestrator.cli import app

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "docs/examples/segmenter/launch.yaml"
NETWORKS = run_path(str(ROOT / "docs/networks.py"))
FREEZES = run_path(str(ROOT / "docs/freezes.py"))
PAGES = (
    "docs/claims.md",
    "docs/claims/figures.md",
    "docs/field.md",
    "docs/networks.md",
    "docs/networks/cells.md",
    "docs/networks/executions.md",
)
NOTEBOOK = run_path(str(ROOT / "docs/notebook.py"))
OUTPUT = re.compile(
    r"(<!-- (?P<short>in short: )?(?P<command>sweep [^\n]+) -->\n).*?(<!-- end -->\n)", re.DOTALL
)
DETAILS = re.compile(r"\n *<details>.*?</details>\n", re.DOTALL)
ADDRESS = re.compile(r"(\w+) https:<!-- -->//(\S+)")  # in a table it is text, not a link


@cache
def printed(command: str) -> str:
    with chdir(ROOT):
        done = CliRunner().invoke(app, shlex.split(command)[1:], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def with_outputs(text: str) -> str:
    """Return a page's text with what each command prints below the comment that names it, headings one level lower.

    After `in short:` without the details that a browser folds.
    """

    def filled(found: re.Match[str]) -> str:
        text = re.sub(r"^#", "##", printed(found["command"]), flags=re.MULTILINE)
        text = DETAILS.sub("", text) if found["short"] else text
        return found[1] + ADDRESS.sub(r"[\1](https://\2)", text) + found[4]

    return OUTPUT.sub(filled, text)


def with_outputs_of(name: str) -> str:
    return with_outputs(NETWORKS["with_blocks"](name))


def keys_page() -> str:
    return launch_file_page(EXAMPLE.read_text(encoding="utf-8"))


DOCUMENTS: dict[str, Callable[[], str]] = {
    "README.md": partial(NETWORKS["with_blocks"], "README.md"),
    **{name: partial(with_outputs_of, name) for name in PAGES},
    "docs/your-model.md": FREEZES["your_model"],
    "docs/results/h100-2026-11-24/freeze/README.md": FREEZES["results_page"],
    "docs/questions.md": questions_page,
    "docs/launch-file.md": keys_page,  # orchestrator/schemas/ has a link to it
    "docs/python.md": python_page,
    "docs/notebook.ipynb": NOTEBOOK["notebook"],
    "analysis/reported_cases.json": field_table,
    **{f"orchestrator/schemas/{name}.json": partial(schema_text, name) for name in SCHEMAS},
}
FIXTURE = "tests/analysis/data/write_fixture.py"

if __name__ == "__main__":
    asked = sys.argv[1:]
    for name in asked or DOCUMENTS:
        (ROOT / name).write_text(DOCUMENTS[name](), encoding="utf-8")
    if not asked:
        for name in NETWORKS["PICTURES"]:
            (ROOT / f"docs/networks/{name}.svg").write_text(NETWORKS["picture"](name), "utf-8")
    run_path(str(ROOT / FIXTURE), run_name="__main__")
