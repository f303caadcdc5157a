"""The screen of a series of words over its nights: tonight's, and the words that are usual."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from cudnn_sweep.analysis.nightly.gate import FEWEST_NIGHTS, FINE_NIGHTS, MONTH, RECENT
from cudnn_sweep.analysis.nightly.metric import Category

State: TypeAlias = Literal["fine", "worse", "better", "different", "insufficient_data"]

# Of the nights compared with: a word that is seen as often is no news.
SELDOM = 0.1  # cuDNN's searches choose among a few kernels, each time anew
OFTEN = 0.5  # a failure is news for as long as most nights had none


@dataclass(frozen=True, kw_only=True, slots=True)
class CategoryScreening:
    """What one series of words shows."""

    state: State
    before: str | None
    """The most frequent of the words compared with."""
    now: str | None
    nights: int
    """Nights compared with; where data are insufficient, nights that there are."""
    first_bad_night_index: int | None
    """Into the values: since when words are unusual; None where fine."""
    is_mended: bool = False
    """The words of the last FINE_NIGHTS are usual."""
    could_show: bool = True
    """Another word would be news: not so where new words keep coming."""


def screen_category(
    values: Sequence[str | None], metric: Category, *, left_out: Collection[int] = ()
) -> CategoryScreening:
    """Judge the last of `values`: one a night, oldest first, None where a night has none.

    Nothing is compared with the nights at the places `left_out`.
    Tonight's word is news where it is unusual and, unless one night is enough, that of one of the two
    nights before is unusual too. Of a search that keeps choosing anew it is not: the share of words seen
    once is about the chance of one never seen (Good and Turing).
    """
    nights = [
        (place, value)
        for place, value in enumerate(values)
        if value is not None and value != metric.no_answer
    ]
    recent, fewest, usual = (1, 2, OFTEN) if metric.at_once else (RECENT, FEWEST_NIGHTS, SELDOM)
    past = Counter([value for place, value in nights[:-recent] if place not in left_out][-MONTH:])
    is_known = len(nights) >= fewest and past.total() >= fewest - recent
    if not is_known or nights[-1][0] != len(values) - 1:
        return _screening("insufficient_data", None, None, len(nights), None)
    before, now = past.most_common(1)[0][0], nights[-1][1]
    if metric.is_drawn and [*past.values()].count(1) > SELDOM * past.total():
        found = _screening("fine", before, now, past.total(), None, is_mended=True)
        return replace(found, could_show=False)
    unusual = [place for place, value in nights if past[value] < usual * past.total()]
    is_mended = not {place for place, _ in nights[-FINE_NIGHTS:]}.intersection(unusual)
    lately = [place for place, _ in nights[-recent:] if place in unusual]
    if len(lately) < min(recent, 2) or lately[-1] != nights[-1][0]:
        return _screening("fine", before, now, past.total(), None, is_mended=is_mended)
    return _screening(_news(now, metric), before, now, past.total(), lately[0])


def _news(now: str, metric: Category) -> State:
    if metric.good is None:
        return "different"
    return "better" if now == metric.good else "worse"


def _screening(
    state: State,
    before: str | None,
    now: str | None,
    nights: int,
    first_bad: int | None,
    *,
    is_mended: bool = False,
) -> CategoryScreening:
    return CategoryScreening(
        state=state,
        before=before,
        now=now,
        nights=nights,
        first_bad_night_index=first_bad,
        is_mended=is_mended,
    )
