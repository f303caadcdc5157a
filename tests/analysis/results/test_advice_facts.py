"""What is said of a job's answer: of each kind as the goldens keep it."""

from tests.goldens import kept
from tests.goldens.advised import advised


def test_facts_of_each_kind_of_advice_are_as_kept() -> None:
    assert kept.differences("reports/advised.txt", advised()) == [], "see make goldens"
