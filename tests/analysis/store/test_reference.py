"""The installed reference answers a question, also under the oldest versions that are allowed."""

from cudnn_sweep.analysis.results.results import open_results
from cudnn_sweep.analysis.store.location import REFERENCE


def test_question_reads_every_sweep_of_the_reference() -> None:
    results = open_results(REFERENCE)
    rows = results.query("coverage").to_pylist()
    assert {row["sweep_id"] for row in rows} == {
        folder.name.removeprefix("sweep=") for folder in REFERENCE.glob("sweep=*")
    }
