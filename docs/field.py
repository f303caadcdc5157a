"""Reported cases on a GPU: run their scripts of torch alone, and compare these with the suite's trials.

    sweep launch docs/field/launch.yaml --results FOLDER     # again until it is finished
    python docs/field.py scripts repro.csv --seconds 480     # again until it says so
    python docs/field.py agreement repro.csv --results FOLDER

`scripts` runs the scripts that `sweep repro` prints, one process at a time, and appends each time to the CSV
file as soon as the case is done. `agreement` asks docs/field/agreement.sql and prints its answer;
docs/field/repro.csv is what docs/field.md tells of.
"""

import argparse
import csv
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pyarrow as pa

from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.engine.formats import to_markdown
from cudnn_sweep.analysis.engine.queries import literal
from cudnn_sweep.analysis.store.stored import open_stored
from cudnn_sweep.orchestrator.repro.script import of_case, script
from cudnn_sweep.workloads.cells.field_case import find_field_case

DOCS = Path(__file__).resolve().parent
COLUMNS = ("case_id", "setting", "process", "ms", "device")
SQL = DOCS / "field/agreement.sql"
CASES = [
    "N002",
    "N004",
    "N012",
    "N014",
    "N015",
    "N042",
    "N046",
    "N052",
    "N056",
    "N057",
    "N058",
    "N061",
    "N065a",
    "N065b",
    "N070a",
    "N071",
    "N073",
    "N074b",
    "N075",
    "N076",
    "N078",
    "N099",
    "N101",
    "P34977b",
    "P43544",
    "P47341",
    "P53094",
    "P54404",
]
SLOWEST_S = 120.0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    scripts = commands.add_parser("scripts")
    scripts.add_argument("file", type=Path)
    scripts.add_argument(
        "--seconds", type=float, default=480.0, help="start no case after this long"
    )
    scripts.add_argument("--cases", nargs="+", default=CASES)
    agreement = commands.add_parser("agreement")
    agreement.add_argument("file", type=Path)
    agreement.add_argument("--results", required=True)
    given = parser.parse_args()
    if given.command == "scripts":
        return run_scripts(given.file, given.cases, given.seconds)
    return print_agreement(given.file, given.results)


def run_scripts(file: Path, cases: list[str], seconds: float) -> int:
    """0 where every case is in the file; 1 where some are left to run, or failed."""
    done = {row["case_id"] for row in read_rows(file)}
    failed, began = [], monotonic()
    for name in cases:
        if name in done or monotonic() - began > seconds:
            continue
        try:
            rows = list(times_of(name))
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed.append(name)
            continue
        append_rows(file, rows)
        done.add(name)
        print(f"{name}: {len(rows)} processes", flush=True)
    left = [name for name in cases if name not in done]
    print(
        f"{len(cases) - len(left)} of {len(cases)} cases are in {file}; left: {' '.join(left) or '-'}"
    )
    return 1 if left else 0


def times_of(name: str) -> Iterator[dict[str, str]]:
    """The lines that a case's script prints."""
    text = script(of_case(find_field_case(name)))
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text],
        check=False,
        capture_output=True,
        text=True,
        timeout=SLOWEST_S,
    )
    if ran.returncode != 0:
        raise RuntimeError(ran.stderr.strip().splitlines()[-1])
    for line in ran.stdout.splitlines():
        yield dict(zip(COLUMNS, (name, *line.split("\t")), strict=True))


def read_rows(file: Path) -> list[dict[str, str]]:
    if not file.exists():
        return []
    with file.open(newline="", encoding="utf-8") as text:
        return list(csv.DictReader(text))


def append_rows(file: Path, rows: list[dict[str, str]]) -> None:
    is_new = not file.exists()
    with file.open("a", newline="", encoding="utf-8") as text:
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerows(rows)


def agreement_sql(rows: list[dict[str, str]]) -> str:
    """The question with the scripts' times as its first table."""
    values = ",\n".join(
        f"({literal(row['case_id'])}, {literal(row['setting'])}, {int(row['process'])}, {float(row['ms'])!r})"
        for row in rows
    )
    table = f"with repro as (\nselect * from (values\n{values}\n) as times(case_id, setting, process, ms)\n)\n"
    lines = [line for line in SQL.read_text().splitlines() if not line.startswith("--")]
    return table + "\n".join(lines)


def agreement(file: Path, results: str, sweep_id: str | None = None) -> pa.Table:
    with open_database(open_stored([results]), sweep_id) as database:
        return database.query(agreement_sql(read_rows(file)))


def print_agreement(file: Path, results: str) -> int:
    answer = agreement(file, results)
    print(to_markdown(answer))
    agrees = answer["agrees"].to_pylist()
    print(
        f"\n{agrees.count(True)} of {len(agrees)} settings agree; {agrees.count(None)} have no trial."
    )
    return 0 if all(agrees) else 1


if __name__ == "__main__":
    sys.exit(main())
