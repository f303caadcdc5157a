"""What is said of mistakes in launch files and suites, as they are planned: where, what was found, what is allowed."""

from tests.goldens.collect import untold

KINDS = (
    "a launch file",
    "a suite",
    "what a night is told",
)


def test_each_mistake_is_named_as_kept() -> None:
    assert untold(*KINDS) == [], "see make goldens"
