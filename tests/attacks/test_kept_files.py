"""What is kept beside the results, after a bad disk and a signal: bits flipped, and a freeze that is ended."""

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cudnn_sweep.analysis.nights.outcome import Acceptance
from cudnn_sweep.analysis.store.parquet import UNREADABLE
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.leftovers import held_folder
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.nightly.request import Diary, as_sent_alert
from cudnn_sweep.orchestrator.planning.spec import NightName
from cudnn_sweep.workloads.cells.errata import as_json, read_kept, rules_of, text_of
from tests.made_up_night import Night
from tests.orchestrator.typed import invoke

Attempts = Callable[[int, int], int]
NAMED = (ValueError, SpecError, ClusterError, duckdb.Error, *UNREADABLE)
EVERY_ROW = "select md5(string_agg(r::varchar order by r::varchar)) from records r"
RULES = "ConvFwd:5:k2=1@91900, pin ConvBwdData:1"
NAME = NightName(date=date(2026, 3, 2), launch="lab")


@dataclass(frozen=True, kw_only=True)
class Kept:
    file: Path
    read: Callable[[], object]
    """What it says. Raises one of NAMED if it cannot be read."""
    places: Sequence[range] = ()
    """Where its bits are flipped; everywhere if there is none."""


@pytest.fixture
def kept(tmp_path: Path, measured: pa.Table, night: Night) -> Mapping[str, Kept]:
    """One of each kind of file."""
    results = tmp_path / "results"
    store = open_store(str(results))
    store.write_part(measured["sweep_id"][0].as_py(), measured)
    return {
        "freeze file": _frozen(tmp_path / "net.json"),
        **{each.file.name: each for each in _nightly(Diary(store=store, launch="lab"), night)},
        "exported DuckDB": _exported(tmp_path / "all.duckdb", results),
        "exported Parquet": _rows(tmp_path / "rows.parquet", results),
    }


def _frozen(file: Path) -> Kept:
    file.write_text(as_json(rules_of(RULES), frozen={"gpu": "X", "plans": ["ConvFwd_eng1"]}))

    def read() -> object:
        rules, whole = read_kept(file)
        return text_of(rules), {key: whole[key] for key in ("rules", "version", "frozen")}

    return Kept(file=file, read=read)


def _nightly(diary: Diary, night: Night) -> list[Kept]:
    finding = night[0].findings[0]
    diary.pin(NAME.date)
    diary.accept([Acceptance(key=finding.key, first=NAME.date, reason="é", told_on=NAME.date)])
    diary.write_sent_alerts([as_sent_alert(finding)])

    def told() -> object:
        if faults := diary.unreadable(NAME):
            raise SpecError(faults[0])
        return diary.sent_alerts()

    folder = diary.store.folder
    reads = {"baseline.json": diary.baseline, "accepted.json": diary.accepted, "told.json": told}
    return [
        Kept(file=Path(folder.shown(f"nightly/lab/{name}")), read=read)
        for name, read in reads.items()
    ]


def _exported(file: Path, results: Path) -> Kept:
    done = invoke(["query", "--export", str(file), "--results", str(results)])
    assert done.exit_code == 0, done.output

    def read() -> object:
        with duckdb.connect(str(file), read_only=True) as plain:
            return plain.sql(EVERY_ROW).fetchall()

    return Kept(file=file, read=read)


def _rows(file: Path, results: Path) -> Kept:
    words = ["query", "select * from records", "--format", "parquet", "--output", str(file)]
    done = invoke([*words, "--results", str(results)])
    assert done.exit_code == 0, done.output
    footer = pq.read_metadata(file)  # which has no checksum
    groups = [footer.row_group(at) for at in range(footer.num_row_groups)]
    columns = [group.column(at) for group in groups for at in range(group.num_columns)]
    starts = [each.dictionary_page_offset or each.data_page_offset for each in columns]
    ends = [start + each.total_compressed_size for start, each in zip(starts, columns, strict=True)]
    return Kept(
        file=file,
        read=lambda: pq.read_table(file, page_checksum_verification=True).to_pylist(),
        places=[range(start, end) for start, end in zip(starts, ends, strict=True)],
    )


@pytest.mark.slow
def test_no_flipped_bit_of_what_is_kept_is_silent(
    kept: Mapping[str, Kept], attempts: Attempts, seed: int
) -> None:
    dice, ends = random.Random(seed), Counter[str]()
    silent = []
    for kind, one in kept.items():
        intact, said = one.file.read_bytes(), repr(one.read())
        for _ in range(attempts(3, 60)):
            place, bit = (
                dice.choice(dice.choice(one.places or [range(len(intact))])),
                dice.randrange(8),
            )
            damaged = bytearray(intact)
            damaged[place] ^= 1 << bit
            one.file.write_bytes(damaged)
            try:
                end = "unharmed" if repr(one.read()) == said else "SILENT"
            except NAMED as error:
                end = "named"
                assert str(error)
            ends[f"{kind}: {end}"] += 1
            silent += [f"{kind}, byte {place}, bit {bit}"] * (end == "SILENT")
        one.file.write_bytes(intact)
        assert repr(one.read()) == said
    print(dict(ends))
    assert not silent


FREEZES = """
import os, sys
from cudnn_sweep.orchestrator.cli.failing import mistakes_exit
from tests.orchestrator.freezing.test_freeze import FASTER, _options, _said

folders = [line.strip() for line in sys.stdin]
for folder in folders:
    pid = os.fork()
    if not pid:
        os.chdir(folder)
        os.setpgid(0, 0)
        code = 99
        try:
            with mistakes_exit():
                print("begins", os.getpid(), flush=True)
                code = _said(_options(), FASTER)[0]
        except BaseException as error:
            code = getattr(error, "exit_code", 99)
        finally:
            os._exit(code)
    print("ended", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}
EARLY_S = 6.0  # in which it measures
WRITES_S = 60.0  # until it writes its file


@pytest.mark.slow
def test_a_freeze_that_is_ended_leaves_a_whole_file_or_none(
    tmp_path: Path, attempts: Attempts, seed: int
) -> None:
    """Each in a process of its own, forked when all is imported. What a clean-up that was ended left, the next removes."""
    dice, ends = random.Random(seed), Counter[str]()
    folders = [tmp_path / f"{number}" for number in range(attempts(1, 60))]
    for folder in folders:
        folder.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(FREEZES)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
    ) as freezes:
        assert freezes.stdin is not None and freezes.stdout is not None
        freezes.stdin.write("\n".join(map(str, folders)))
        freezes.stdin.close()
        for folder in folders:
            number = dice.choice(list(EXIT_CODES))
            pid = int(_word(freezes.stdout.readline(), "begins"))
            if dice.randrange(2):
                time.sleep(dice.uniform(0.0, EARLY_S))
            else:
                _wait_for_the_file(folder)
                time.sleep(dice.uniform(0.0, 0.004))
            os.killpg(pid, number)
            code = int(_word(freezes.stdout.readline(), "ended"))
            assert code in (0, EXIT_CODES[number]), (number, code)
            file = folder / "batch_norm.json"
            if file.exists():
                assert json.loads(file.read_text())["frozen"]["plans"], "whole, and its own"
                read_kept(file)
            with held_folder(f".{file.name}.", folder):
                pass  # as the next freeze does, which removes what this one may have left
            assert {each.name for each in folder.iterdir()} <= {file.name, "results"}
            ends[f"{number.name}: {code}, {'a file' if file.exists() else 'none'}"] += 1
    print(dict(ends))


def _wait_for_the_file(folder: Path) -> None:
    """Until it is written, or the folder is there in which it is."""
    ends = time.monotonic() + WRITES_S
    while not any("batch_norm.json" in name for name in os.listdir(folder)):
        assert time.monotonic() < ends, "nothing is written"
        time.sleep(0.0005)


def _word(line: str, first: str) -> str:
    assert line.startswith(first), line
    return line.split()[1]
