"""Write schema-<version>.parquet, one record of the present layout, beside this file.

`make docs` runs it. A file that is there stays: it is what its version wrote.
"""

from pathlib import Path
from runpy import run_path

from cudnn_sweep.analysis.store.parquet import encode
from cudnn_sweep.analysis.store.schema import SCHEMA_VERSION, to_table

if __name__ == "__main__":
    record = run_path(str(Path(__file__).parents[1] / "conftest.py"))["RECORD"]
    target = Path(__file__).with_name(f"schema-{SCHEMA_VERSION}.parquet")
    if not target.exists():
        target.write_bytes(encode(to_table([record])).to_pybytes())
