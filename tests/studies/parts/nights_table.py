"""What screens and confirmations did on made-up nights, as tables for a terminal, and in words."""

from collections.abc import Iterator, Sequence

from tests.studies.parts.detection_figures import (
    LEAST_FOUND,
    MOST_FALSE,
    OTHER_STEPS,
    STEP,
    WAITS,
    WITHIN,
    NightFigures,
    Rule,
)
from tests.studies.parts.night_choices import WITHIN_WAITING, ChoiceFigures
from tests.studies.parts.night_words import WordFigures
from tests.studies.parts.realities import (
    AGAIN,
    GROUP,
    IN_TIME,
    Reality,
    RealityFigures,
)
from tests.studies.parts.simulation import Share

LEGEND = """\
Steps are 5% unless stated otherwise. Found: in percent.
false: alerts per series if nothing changes, over all nights; drift: false alerts before it begins, then
the drifts found."""
SIDE_BY_SIDE = ("2%", "heavy_tails", "spikes", "drift")
RULE_HEADS = ("false", *(f"in {nights}" for nights in WAITS))


def tables(every: Sequence[NightFigures]) -> Iterator[str]:
    """One a question, each with its heading."""
    yield from (_software(every), _hardware(every), _curves(every), _side_by_side(every))


def in_words(every: Sequence[NightFigures]) -> str:
    held = [figures for figures in every if figures.is_promised]
    missing = "; ".join(
        f"{', '.join(figures.missed())} under {figures.noise.name}"
        for figures in held
        if figures.missed()
    )
    if missing:
        return f"Missed: {missing}."
    return (
        f"Software changed, at 2% noise: at most {MOST_FALSE:g} false alerts per series and at least "
        f"{LEAST_FOUND:.0%} of steps found, in all {len(held)} divisions of the noise."
    )


def by_nights_alone(every: Sequence[NightFigures]) -> str:
    """The count over all kinds of noise, in words."""
    counted = []
    for step in sorted((STEP, *OTHER_STEPS)):
        shares = [figures.by_nights_alone[step] for figures in every]
        counted.append(
            (step, sum(each.hits for each in shares), sum(each.cells for each in shares))
        )
    alone, alerts = (sum(each[place] for each in counted) for place in (1, 2))
    return (
        "Software changed, with a second environment: alerts within 14 nights that nights alone confirm: "
        f"{alone} of {alerts} ({alone / alerts:.1%}); "
        + ", ".join(f"of {step:.0%}: {alone} of {alerts}" for step, alone, alerts in counted)
        + ". Software unchanged: all of them."
    )


def _software(every: Sequence[NightFigures]) -> str:
    steps = sorted((STEP, *OTHER_STEPS))
    heads = ("noise", "candidates", "pairs each", "false", *(f"{step:.0%}" for step in steps))
    title = (
        f"Software changed: interleaved pairs confirm. Steps found within {WITHIN} nights. "
        "candidates: share of series and nights without a change."
    )
    return _table(title, heads, [_software_row(each, steps) for each in every])


def _software_row(figures: NightFigures, steps: Sequence[float]) -> list[str]:
    found = {**figures.found_by_step, STEP: figures.software.found[WITHIN]}
    missed = figures.missed() if figures.is_promised else []
    told = {step: _percent(found[step]) for step in steps}
    return [
        figures.noise.name,
        f"{100 * figures.candidates.value:.1f}%",
        f"{figures.software.pairs_a_candidate:.1f}",
        _false(figures.software) + " !" * ("false alerts" in missed),
        *(told | {STEP: told[STEP] + " !" * ("steps found" in missed)}).values(),
        f"  {figures.noise.meaning}",
    ]


def _hardware(every: Sequence[NightFigures]) -> str:
    rows = [(each.noise.name, *_rule(each.hardware)) for each in every]
    title = "Software unchanged: nights confirm. Steps found within that many nights:"
    return _table(title, ("noise", *RULE_HEADS), rows)


def _curves(every: Sequence[NightFigures]) -> str:
    rows = [
        (f"{each.noise.name}, {kind} {rule.name}", *_rule(rule))
        for each in every
        for kind, rules in (("z", each.curve), ("oracle z", each.all_knowing))
        for rule in rules
    ]
    title = "The same for laxer and stricter alerts, beside an oracle that knows level and noise:"
    return _table(title, ("noise, standard errors", *RULE_HEADS), rows)


def _side_by_side(every: Sequence[NightFigures]) -> str:
    rows = [
        (f"{each.noise.name}, {rule.name}", *_rule(rule))
        for each in every
        if each.noise.name in SIDE_BY_SIDE
        for rule in (each.software, each.hardware, *each.plain)
        if rule is not each.software or not each.noise.is_drifting
    ]
    return _table("Side by side:", ("noise, rule", *RULE_HEADS), rows)


def realities(every: Sequence[RealityFigures]) -> str:
    title = (
        "Other kinds of change, software unchanged. alerts: per series. found: series with an alert, in "
        "percent; stay: the share of the last 30 nights in which these alert; again: those with a new alert "
        f"within {IN_TIME} nights of night {AGAIN}. most: the largest number of findings of {GROUP} series of "
        "one GPU in a night. nights: those with a finding, in percent:"
    )
    heads = ("reality", "alerts", "found", "stay", "again", "most", "nights", "target")
    return _table(title, heads, [_reality_row(each) for each in every])


def choices(every: Sequence[ChoiceFigures]) -> str:
    title = (
        "Processes that choose between two kernels. slower, share: of the second one, before the change. "
        f"Pairs (within {WITHIN} nights) whose kernels are not known, today's, and as they would be with choices told apart "
        f"in the screen too; nights (within {WITHIN_WAITING}), and with choices told apart. false: per series, "
        "before the change:"
    )
    ways = ("unknown", "pairs", "all apart", "nights", "all apart")
    heads = ("", "noise", "slower", "share", *(name for way in ways for name in (way, "")))
    below = ("change", "", "", "", *("false", "found") * len(ways))
    return _table(title, heads, [below, *(_choices_row(each) for each in every)])


def _choices_row(each: ChoiceFigures) -> list[str]:
    change = each.change
    row = [change.meaning, f"{change.in_all:.1%}", f"{change.slower:.0%}", f"{change.share:.0%}"]
    for arm in each.arms:
        found = "-" if change.is_still else f"{100 * arm.found / each.series:.1f}"
        row += [f"{arm.false_alerts / each.series:.4f}", found]
    return row


def words(every: Sequence[WordFigures]) -> str:
    title = (
        "Words, software unchanged. alerts: of nothing, in 100 series and 30 nights. found: changes with an "
        "alert within three nights, in percent:"
    )
    rows = [
        (
            each.nights.meaning,
            f"{each.alerts:.1f}" + " !" * each.is_missed,
            "-" if each.found is None else f"{100 * each.found:.0f}",
        )
        for each in every
    ]
    return _table(title, ("", "alerts", "found"), rows)


def missed_words(every: Sequence[WordFigures]) -> str:
    """In words; nothing where none is."""
    return "; ".join(f"false alerts: {each.nights.meaning}" for each in every if each.is_missed)


def missed_realities(every: Sequence[RealityFigures]) -> str:
    """In words; nothing where none is."""
    return "; ".join(
        f"{', '.join(each.missed())} in {each.reality.name}" for each in every if each.missed()
    )


def _target(held: Reality) -> str:
    if held.most_false is not None:
        return f"<= {held.most_false:g}"
    if held.stays:
        return "1, stays"
    if held.comes_again:
        return "again"
    return "-" if held.most_findings is None else f"{held.most_findings} per night"


def _reality_row(each: RealityFigures) -> list[str]:
    held = each.reality
    is_still = held.effect is None
    shares = [100 * share for share in (each.found, each.late, each.again)]
    named = [f"{share:.1f}" for share in shares]
    return [
        held.name,
        f"{each.told:.4f}",
        named[0],
        "-" if is_still else named[1],
        named[2] if held.comes_again else "-",
        str(each.most_findings),
        f"{100 * each.nights_told:.1f}",
        _target(held) + " !" * bool(each.missed()),
        f"  {held.meaning}",
    ]


def _rule(rule: Rule) -> list[str]:
    return [_false(rule), *(_percent(share) for share in rule.found.values())]


def _false(rule: Rule) -> str:
    return f"{rule.false_alerts.value:.4f}"


def _percent(share: Share) -> str:
    return f"{100 * share.value:.1f}"


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    width = max(len(row[0]) for row in (heads, *rows))
    return "\n".join([title, *(_line(width, cells) for cells in (heads, *rows))])


def _line(width: int, cells: Sequence[str]) -> str:
    return f"{cells[0]:{width}}" + "".join(f"{cell:>11}" for cell in cells[1:])
