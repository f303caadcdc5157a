"""What is said of mistakes in suites: where, what was found, what is allowed."""

import pytest

from tests.goldens.collect import untold

KINDS = (
    "a cell",
    "a regime's parameters",
    "a regime of a single small image",
    "a model's inputs",
    "a table of shapes",
    "a regime of a table that is not there",
    "a suite",
    "a config",
    "a problem",
    "an errata file",
)


@pytest.mark.slow
def test_each_mistake_is_named_as_kept() -> None:
    assert untold(*KINDS) == [], "see make goldens"
