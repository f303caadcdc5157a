"""What is known of a series, and how that changes from night to night: one series' finding and the thousands of a
study follow the same rules. Arguments are of one series, or arrays that hold a series each.
"""

from enum import IntEnum
from typing import TypeAlias

import numpy as np

from cudnn_sweep.analysis.nightly.gate import Mask, Places

Flags: TypeAlias = Mask | bool


class Known(IntEnum):
    """What earlier nights made of a series."""

    NOTHING = 0
    WAITS = 1
    REFUTED = 2
    """So long as the screen shows it, it is not measured again."""
    ALERTS = 3
    """Until it is mended, it is no further alert, and its nights are not compared with."""


KNOWN = {"waiting": Known.WAITS, "refuted": Known.REFUTED, "confirmed": Known.ALERTS}


def stays(known: Places | Known, *, can_tell: Flags, is_mended: Flags, is_opposite: Flags) -> Mask:
    """Though tonight's screen does not show it: what waits, unless the screen shows the opposite; and an alert
    that one fine night has not ended.
    """
    waits_on = np.equal(known, Known.WAITS) & np.logical_not(is_opposite)
    is_over = np.logical_and(can_tell, is_mended)
    found: Mask = waits_on | np.equal(known, Known.ALERTS) & np.logical_not(is_over)
    return found


def settled(
    known: Places | Known,
    is_seen: Flags,
    *,
    is_confirmed: Flags,
    is_refuted: Flags,
    is_given_up: Flags,
) -> Places:
    """What is known after tonight's judgement of what is no alert yet; `is_given_up`: it waited long enough."""
    undecided = np.where(np.equal(known, Known.REFUTED), Known.REFUTED, Known.WAITS)
    undecided = np.where(is_given_up, Known.NOTHING, undecided)
    refuted = np.where(is_seen, Known.REFUTED, Known.NOTHING)
    found: Places = np.where(is_confirmed, Known.ALERTS, np.where(is_refuted, refuted, undecided))
    return found
