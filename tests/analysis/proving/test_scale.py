"""The made-up store, and that every question stays quick and small over it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cudnn_sweep.analysis import open_results
from cudnn_sweep.analysis.asking.queries import query_names
from cudnn_sweep.analysis.errors import AnalysisError
from cudnn_sweep.analysis.proving.generated import write_generated
from cudnn_sweep.analysis.proving.question_timing import ask_alone
from cudnn_sweep.analysis.proving.scale import measure_rivals, stored_bytes
from cudnn_sweep.analysis.storing.store import open_store

TRIALS = 5000
MOST_CPU_S = 4.0  # about 0.2 s
MOST_BYTES = 1_500_000_000  # about 350 MB, most of it the imports
ASK_EVERYTHING = """
import json, resource, sys, time
from cudnn_sweep.analysis import open_results
from cudnn_sweep.analysis.asking.queries import query_names
results, asked = open_results(sys.argv[1]), {}
for name in query_names():
    began_s = time.process_time()  # of all threads, whatever else the machine does
    rows = len(results.query(name))
    asked[name] = [rows, time.process_time() - began_s]
print(json.dumps([asked, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]))
"""


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("scale")
    write_generated(open_store(str(folder)), trials=TRIALS, samples=300)
    return str(folder)


def test_every_question_is_quick_and_small(location: str) -> None:
    command = [sys.executable, "-c", ASK_EVERYTHING, location]
    told = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    asked, peak_bytes = json.loads(told.stdout)
    assert list(asked) == query_names()
    empty = {name for name, (rows, _) in asked.items() if not rows}
    assert empty == {"software_pairs", "model_step"}, "others are about something in it"
    slow = {name: cpu_s for name, (_, cpu_s) in asked.items() if cpu_s > MOST_CPU_S}
    assert not slow
    assert peak_bytes < MOST_BYTES


def test_pandas_finds_the_same_ratios(location: str) -> None:
    begun: list[str] = []
    rivals = measure_rivals(location, repeats=1, begins=begun.append)
    assert begun == [rival.asked.name for rival in rivals]
    assert [rival.asked.rows for rival in rivals] == [rivals[0].asked.rows] * 2
    assert rivals[0].asked.rows > 100
    assert max(rival.difference for rival in rivals) < 1e-9


def test_a_made_up_store_has_the_trials_asked_for_and_four_sweeps(location: str) -> None:
    sweeps = open_results(location).query("sweeps").arrow()
    assert sweeps["recorded"].to_pylist() == [TRIALS // 4] * 4
    assert set(sweeps["finished"].to_pylist()) == {True}
    assert stored_bytes(Path(location)) < 5000 * TRIALS


def test_what_is_asked_alone_tells_what_it_took(location: str) -> None:
    asked = ask_alone(location, "sweeps")
    assert (asked.name, asked.rows, asked.ratios) == ("sweeps", 4, None)
    assert 0 < asked.cpu_s < MOST_CPU_S and asked.wall_s > 0
    with pytest.raises(AnalysisError, match="no question 'nope'"):
        ask_alone(location, "nope")
