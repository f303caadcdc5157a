"""Writes anew what is made from the code: `make docs`. A test fails where that was forgotten."""

from collections.abc import Callable
from pathlib import Path
from runpy import run_path

from cudnn_sweep.analysis.dictionary import questions_dictionary
from cudnn_sweep.analysis.schema import data_dictionary

ROOT = Path(__file__).parents[1]
DOCUMENTS: dict[str, Callable[[], str]] = {
    "docs/records.md": data_dictionary,
    "docs/questions.md": questions_dictionary,
}
FIXTURE = "tests/analysis/data/write_fixture.py"

if __name__ == "__main__":
    for name, text in DOCUMENTS.items():
        (ROOT / name).write_text(text(), encoding="utf-8")
    run_path(str(ROOT / FIXTURE), run_name="__main__")
