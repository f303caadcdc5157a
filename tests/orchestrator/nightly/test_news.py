"""What a night prints, and what it posts to Slack."""

from tests.goldens import kept
from tests.goldens.collect import told_of
from tests.made_up_night import nights_like_it

KEPT = "reports/nights.json.xz"


def test_terminal_and_slack_say_of_each_made_up_night_what_is_kept() -> None:
    before = kept.read(KEPT)
    for name, (outcome, _) in nights_like_it().items():
        told = told_of(outcome)
        of_told = {place: before[name][place] for place in told}
        assert kept.differences_from(of_told, KEPT, told) == [], f"{name}: see make goldens"
