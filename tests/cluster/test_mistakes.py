"""What is said of mistakes in launch files: where, what was found, what is allowed."""

from tests.goldens.collect import untold

KINDS = (
    "strict YAML",
    "a launch file",
    "a launch file of a cluster",
)


def test_each_mistake_is_named_as_kept() -> None:
    assert untold(*KINDS) == [], "see make goldens"
