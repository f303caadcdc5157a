"""What docs/claims.md says of the twelve claims, from the results installed with the package: `make docs`."""

from collections.abc import Iterator
from functools import cache

from reference.measured import spent, wrapped

from cudnn_sweep.analysis.asking.database import open_database
from cudnn_sweep.analysis.asking.formats import escaped
from cudnn_sweep.analysis.report.pages.claims import CLAIMS
from cudnn_sweep.analysis.report.pages.page import Entry, Shown, show
from cudnn_sweep.analysis.storing.reference import REFERENCE
from cudnn_sweep.analysis.storing.stored import open_stored

EXTRA = "extra time of first calls, ms"
MEANS = {
    1: "This is the convolution that most tutorials time. Each process has one setting and one shape.",
    2: (
        "The script runs exactly so in a fresh process. `time.time()` is read while the GPU still works, so the clock of "
        "the loop that comes first has the search in it, and that of the second loop has launches alone. The plan cache "
        "outlives the flag, so the second loop runs the first one's plans. The claim holds if the clock gives the verdict "
        "of fresh processes. Beside it stand the other order, and a script that warms up and waits for the GPU."
    ),
    3: "Whole training steps at fixed sizes. [networks.md](networks.md) has the other networks.",
    4: (
        "Where sizes stay, the claim is that a step gets faster; where they change, that it gets slower. The crossing is "
        "the number of iterations at one shape after which its search has paid. It exists only at shapes where "
        "benchmark makes a step faster."
    ),
    5: (
        "The extra time of a shape's first call: of one cell, that is a layer or a network in one direction and one "
        "shape. An empty cache of compiled kernels is that of a new container; a warm one is that of a machine that ran "
        "the cell before. The cache can also be switched off. The command below lists every cell."
    ),
    6: (
        "The bits of a step's outputs and gradients, from equal inputs. Results can differ within one process, or only "
        "between processes that chose other kernels. A figure holds if they differ with benchmark on and are the same "
        "with it off."
    ),
    7: (
        "The same comparison of bits with deterministic on, and what it costs in time. With benchmark on, processes can "
        "still choose different ones of the deterministic engines."
    ),
    8: "Convolutions and networks with cuDNN switched off.",
    9: (
        "enabled is on anyway. The other two contradict each other in part: deterministic leaves fewer engines to choose "
        "from, and a search still costs its time."
    ),
    10: "Each operation alone, with cuDNN and without it. PyTorch has kernels of its own for some of them.",
    11: (
        "A flag that is set after the first step meets plans that are cached already. A flag that is on around the forward "
        "pass alone is off when the backward pass is searched. The claim holds where benchmark set later gains less than "
        "benchmark set before the first step, which stands beside."
    ),
    12: (
        "Six things that the advice to turn benchmark on leaves out. A figure holds where one of them changes the answer: "
        "more memory, a gain on the GPU that the loop does not see, processes that choose differently, another verdict "
        "in another precision or layout, a gain from timing all plans."
    ),
}


@cache
def found() -> Shown:
    return show(CLAIMS, open_stored([str(REFERENCE)]), [str(REFERENCE)], None)


def page() -> str:
    """docs/claims.md."""
    shown = found()
    entries = sorted(shown.entries, key=_number)
    held = {row["claim"]: row["holds_in"] or "" for row in shown.rows}
    return "\n".join(
        [
            "# What people say of torch.backends.cudnn",
            "",
            wrapped(
                f"What people say of these settings, judged by stored trials. {shown.headline()} "
                + (f"Measured on {'; '.join(shown.measured)}." if shown.measured else "")
            ),
            "",
            "    sweep report --page claims --reference         # this page, from the installed rows",
            "    sweep query claims/01_fixed_shape --reference  # one claim, figure by figure",
            "    sweep launch docs/claims/launch.yaml           # measures the suite on your GPU; again until finished",
            "    sweep report --page claims                     # your own page, from ./results",
            "",
            wrapped(
                "Each claim has a question of its own in [analysis/sql/claims](../analysis/sql/claims/), a file or a row of "
                "`table.toml`; it says when a figure holds. A figure is undecided if its interval leaves both open, or its cell still lacks "
                "blocks. A claim holds if all decided figures say so, and at least half of all are decided. If only some "
                "say so, the verdict names the conditions in which all of them do, then those in which some do. A ratio "
                "is candidate / baseline, with its 95% interval. Made by `make docs`."
            ),
            *_spent(),
            "",
            "| | claim | verdict | figures |",
            "|---|---|---|---|",
            *(_line(entry, held[_number(entry)]) for entry in entries),
            "",
            *(line for entry in entries for line in _section(entry)),
        ]
    )


def _number(entry: Entry) -> int:
    return int(entry.name.removeprefix("claim "))


def _line(entry: Entry, held: str) -> str:
    name = f"[{_number(entry)}](#claim-{_number(entry)})"
    return f"| {name} | {escaped(entry.said)} | {entry.facts['verdict']} | {escaped(held)} |"


def _section(entry: Entry) -> Iterator[str]:
    number = _number(entry)
    yield from [
        f"## Claim {number}",
        "",
        wrapped(f"*{entry.said}*"),
        "",
        wrapped(MEANS[number]),
        "",
    ]
    facts = {name: text for name, text in entry.facts.items() if name != "measure it"}
    yield from (wrapped(f"- {name}: {text}") for name, text in facts.items())
    for each in entry.samples:
        times = "; ".join(
            f"{name}: {', '.join(f'{value:.4g}' for value in values)}" for name, values in each.rows
        )
        yield wrapped(f"- {', '.join(filter(None, (each.title, each.unit)))}. {times}")
    if number == 5:
        yield from _starts()
    yield from [
        "",
        f"    {entry.command}",
        f"    {entry.facts['measure it']}",
        "",
    ]


def _starts() -> Iterator[str]:
    """What the first call costs more, by direction, where it was measured with the cache switched off too."""
    costs = {
        (row["cell"], row["condition"]): f"{row['value']:,.0f}"
        for row in found().rows
        if row["claim"] == 5 and row["measure"] == EXTRA
    }
    states = list(dict.fromkeys(state for _, state in costs))
    cells = [cell for cell, state in costs if state == "compute cache disabled"]
    if not cells:
        return
    yield from ["", f"{EXTRA}:".capitalize(), ""]
    yield from [f"| cell | {' | '.join(states)} |", f"|---|{'---:|' * len(states)}"]
    for cell in cells:
        yield f"| {escaped(cell)} | {' | '.join(costs.get((cell, state), '') for state in states)} |"


def _spent() -> Iterator[str]:
    """GPU minutes behind the rows of the suite."""
    with open_database(open_stored([str(REFERENCE)])) as database:
        trials, minutes = spent(database, "claims")
    if trials:
        text = f"{trials} of the trials are of the suite `claims`: {minutes:.0f} GPU minutes."
        yield from ["", wrapped(text)]
