"""The workflow to copy is one that GitHub takes."""

import subprocess
import sys
from pathlib import Path

WORKFLOW = Path(__file__).parents[1] / "docs/examples/github-nightly.yaml"


def test_github_takes_the_workflow() -> None:
    check = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        "vendor.github-workflows",
    ]
    done = subprocess.run([*check, str(WORKFLOW)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
