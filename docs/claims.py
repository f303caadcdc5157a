"""What docs/claims.md says of the twelve claims, from the results installed with the package: `make docs`."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from textwrap import fill

from cudnn_sweep.analysis.asking.database import open_database
from cudnn_sweep.analysis.asking.formats import escaped
from cudnn_sweep.analysis.report.pages.claims import CLAIMS, question_of
from cudnn_sweep.analysis.report.pages.page import Entry, Shown, show
from cudnn_sweep.analysis.storing.reference import REFERENCE
from cudnn_sweep.analysis.storing.stored import open_stored

DOCS = Path(__file__).resolve().parent
SPENT = (
    "select sum(trials)::bigint as trials, sum(seconds) / 60 as minutes from ("
    "select count(*) as trials, epoch(max(ended_at) - min(started_at)) as seconds "
    "from records where suite = 'claims' group by sweep_id, launch_id, slot)"
)
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
        "the number of iterations at one shape after which its search has paid, where benchmark gains at all."
    ),
    5: (
        "The extra time of a shape's first call. An empty cache of compiled kernels is that of a new container; a warm one "
        "is that of a machine that ran the cell before. The cache can also be switched off."
    ),
    6: (
        "The bits of a step's outputs and gradients, from equal inputs. Results can differ within one process, or only "
        "between processes that chose other kernels."
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
        "pass alone is off when the backward pass is searched."
    ),
    12: "Six things that decide in practice, and that the advice to turn benchmark on leaves out.",
}


@cache
def found() -> Shown:
    return show(CLAIMS, open_stored([str(REFERENCE)]), [str(REFERENCE)], None)


def page() -> str:
    """docs/claims.md."""
    shown = found()
    entries = sorted(shown.entries, key=_number)
    return "\n".join(
        [
            "# What people say of torch.backends.cudnn",
            "",
            wrapped(
                f"Twelve claims, judged by stored trials. {shown.headline()} "
                + (f"Measured on {'; '.join(shown.measured)}." if shown.measured else "")
            ),
            "",
            "    sweep report --page claims --reference         # this page, from the installed rows",
            "    sweep query claims/01_fixed_shape --reference  # one claim, figure by figure",
            "    sweep launch docs/claims/launch.yaml           # measures the suite on your GPU; again until finished",
            "    sweep report --page claims                     # your own page, from ./results",
            "",
            wrapped(
                "Each claim has a question of its own, a file in [analysis/sql/claims](../analysis/sql/claims/). Its head "
                "says when a figure holds. A claim holds if all decided figures say so, and at least half of them are "
                "decided; it holds in part if some do. Made by `make docs`."
            ),
            *_spent(),
            "",
            "| | claim | verdict | figures |",
            "|---|---|---|---|",
            *(_line(entry) for entry in entries),
            "",
            *(line for entry in entries for line in _section(entry)),
        ]
    )


def _number(entry: Entry) -> int:
    return int(entry.name.removeprefix("claim "))


def _line(entry: Entry) -> str:
    name = f"[{_number(entry)}](#claim-{_number(entry)})"
    conditions = "; ".join(_counts(entry))
    return f"| {name} | {escaped(entry.said)} | {entry.facts['verdict']} | {escaped(conditions)} |"


def _counts(entry: Entry) -> Iterator[str]:
    for name, text in entry.facts.items():
        count = text.partition(";")[0]
        if count.startswith("holds in ") or count.endswith(" undecided"):
            yield f"{name}: {count.removeprefix('holds in ')}"


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
    yield from [
        "",
        f"    sweep query {question_of(number)} --reference",
        f"    {entry.facts['measure it']}",
        "",
    ]


def _spent() -> Iterator[str]:
    """GPU minutes behind the rows of the suite."""
    with open_database(open_stored([str(REFERENCE)])) as database:
        (row,) = database.query(SPENT).to_pylist()
    if row["trials"]:
        minutes = f"{row['minutes']:.0f} GPU minutes"
        yield from [
            "",
            wrapped(f"{row['trials']} of the trials are of the suite `claims`: {minutes}."),
        ]


def wrapped(text: str) -> str:
    indent = "  " if text.startswith("- ") else ""
    return fill(text, 118, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
