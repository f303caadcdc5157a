"""Every question stays quick and small over a made-up store of some thousand trials."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cudnn_sweep.analysis.engine.queries import query_names
from cudnn_sweep.analysis.store.store import open_store
from tests.studies.parts.generated import write_generated

TRIALS = 2000
MOST_CPU_S = 4.0  # about 0.2 s
MOST_BYTES = 1_500_000_000  # about 350 MB, most of it the imports
ASK_EVERYTHING = """
import json, resource, sys, time
from cudnn_sweep.analysis import open_results
from cudnn_sweep.analysis.engine.queries import query_names
results, asked = open_results(sys.argv[1]), {}
for name in query_names():
    began_s = time.process_time()  # of all threads, whatever else the machine does
    rows = len(results.query(name))
    asked[name] = [rows, time.process_time() - began_s]
print(json.dumps([asked, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]))
"""


@pytest.mark.long
def test_every_question_is_quick_and_small(tmp_path: Path) -> None:
    write_generated(open_store(str(tmp_path)), trials=TRIALS, samples=300)
    command = [sys.executable, "-c", ASK_EVERYTHING, str(tmp_path)]
    told = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    asked, peak_bytes = json.loads(told.stdout)
    assert list(asked) == query_names()
    empty = {name for name, (rows, _) in asked.items() if not rows}
    assert empty == {"software_pairs", "freezes", "bans"}, "others are about something in it"
    slow = {name: cpu_s for name, (_, cpu_s) in asked.items() if cpu_s > MOST_CPU_S}
    assert not slow
    assert peak_bytes < MOST_BYTES
