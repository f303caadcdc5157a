"""Writes anew what is made from the code: `make docs`. A test fails where that was forgotten.

With names it writes these documents alone, and the stored file of a new schema version.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from runpy import run_path

from reference.field import field_table
from reference.page import launch_file_page
from reference.python import python_page
from reference.schema import SCHEMAS, schema_text

from cudnn_sweep.analysis.asking.dictionary import questions_dictionary
from cudnn_sweep.analysis.storing.schema import data_dictionary

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "docs/examples/segmenter/launch.yaml"
FIELD = run_path(str(ROOT / "docs/field.py"))
NETWORKS = run_path(str(ROOT / "docs/networks.py"))
CLAIMS = run_path(str(ROOT / "docs/claims.py"))
RULES = run_path(str(ROOT / "docs/rules.py"))
NOTEBOOK = run_path(str(ROOT / "docs/notebook.py"))


def keys_page() -> str:
    return launch_file_page(EXAMPLE.read_text(encoding="utf-8"))


DOCUMENTS: dict[str, Callable[[], str]] = {
    "README.md": NETWORKS["readme"],
    "docs/networks.md": NETWORKS["page"],
    "docs/field.md": FIELD["page"],
    "docs/claims.md": CLAIMS["page"],
    "docs/rules.md": RULES["page"],
    "analysis/answering/rules.json": RULES["rules_json"],
    "docs/records.md": data_dictionary,
    "docs/questions.md": questions_dictionary,
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
