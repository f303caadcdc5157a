"""docs/security.md: each promise has a test."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROMISES = (ROOT / "docs/security.md").read_text().partition("## What holds?")[2]


def test_each_promise_names_tests_that_are_there() -> None:
    table = PROMISES.partition("## What was run?")[0]
    rows = re.findall(r"^\| (.+) \| (.+) \|$", table, re.MULTILINE)[1:]
    assert len(rows) > 20
    for promise, tests in rows:
        for test in tests.split(", "):
            places = [ROOT / test, Path(__file__).parent / test]
            assert any(place.is_file() for place in places), (promise, test)
