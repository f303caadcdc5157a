import pytest

from cudnn_sweep.analysis.printable import part_text


@pytest.mark.parametrize(
    ("part", "value", "shown"),
    [
        ("cudnn", "91900", "9.19.0"),
        ("cudnn", "8907", "8.9.7"),
        ("cudnn", "none", "none"),
        ("driver", "58015", "58015"),
    ],
)
def test_cudnn_is_shown_as_its_version(part: str, value: str, shown: str) -> None:
    assert part_text(part, value) == shown
