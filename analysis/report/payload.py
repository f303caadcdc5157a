"""A report as data: what the page embeds, and what `--format json` prints."""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields

from cudnn_sweep.analysis.answering.verdict_words import headline, third_blocks
from cudnn_sweep.analysis.report import words
from cudnn_sweep.analysis.report.cells import shared
from cudnn_sweep.analysis.report.content import Compared, Content
from cudnn_sweep.analysis.report.sheets import Sheet, sheets
from cudnn_sweep.analysis.words import counted

WARNINGS = (
    "throttled",
    "shared_gpu",
    "power_capped",
    "clocks_unsettled",
    "other_shapes",
    "own_loss_unused",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedWords:
    """A contrast's answer in words."""

    name: str
    headline: str
    sentences: Sequence[str]
    left_out: Sequence[str]
    counts: Mapping[str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Payload:
    """What every format of a report is made of."""

    location: str
    min_effect: float
    common: Sequence[str]
    """What all cells share."""
    nothing: str | None
    """Why there is no answer, where there is none."""
    cost: str
    contrasts: Sequence[ComparedWords]
    left_out: Sequence[str]
    """What no contrast's answer rests on."""
    warnings: Sequence[str]
    """How many trials have which."""
    trials_query: str
    """Lists a cell's trials, once CELL stands for its cell_id."""
    failures_query: str
    tables: Mapping[str, Sheet]
    charts: tuple[str, ...]
    """The only ones; all where none is named."""

    def as_json(self) -> dict[str, object]:
        """All of it as JSON has it. Not by `asdict`, which copies every number of every table."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return values | {
            "contrasts": [asdict(contrast) for contrast in self.contrasts],
            "tables": {name: sheet.as_json() for name, sheet in self.tables.items()},
        }


def payload(content: Content) -> Payload:
    return Payload(
        location=", ".join(content.locations),
        min_effect=content.min_effect,
        common=[*filter(None, [content.against]), *shared(list(content.cells))],
        nothing=_nothing(content),
        cost=words.cost(content) if content.cells else "",
        contrasts=[_in_words(content, each) for each in content.compared],
        left_out=_left_out(content),
        warnings=_warned(content),
        trials_query=_command(content, "\"select * from records where cell_id = 'CELL'\""),
        failures_query=_command(content, "failures"),
        tables=sheets(content),
        charts=("effect",) if content.against else (),
    )


def _nothing(content: Content) -> str | None:
    if not content.cells:
        return words.NOTHING_STORED
    return None if content.compared else words.NOTHING_COMPARED


def _command(content: Content, question: str) -> str:
    where = " ".join(f"--results {shlex.quote(each)}" for each in content.locations)
    return f"sweep query {question} {where}"


def _in_words(content: Content, compared: Compared) -> ComparedWords:
    labels = {cell.stored.key: cell.label for cell in content.cells}
    return ComparedWords(
        name=str(compared.contrast),
        headline=headline(compared.verdicts, content.min_effect),
        sentences=words.sentences(compared, labels, _next_step(content, compared)),
        left_out=_left_out_of(compared),
        counts=dict(Counter(each.wall_verdict for each in compared.verdicts)),
    )


def _next_step(content: Content, compared: Compared) -> str | None:
    """For cells that were not looked at."""
    said = None if compared.contrast.is_twins else third_blocks(compared.verdicts)
    how = "the same sweep launch again" if _gaps(content) else "replicates: 3"
    return said and f"Next: {how} {said}."


def _left_out_of(compared: Compared) -> list[str]:
    split = sum(verdict.split_blocks for verdict in compared.verdicts)
    doubtful = sum(verdict.doubtful_blocks for verdict in compared.verdicts)
    unpaired = sum(verdict.unpaired_blocks for verdict in compared.verdicts)
    said = [
        (split, "block", "split over GPUs or launches, and left out"),
        (doubtful, "block", "left out because the GPU was throttled or shared"),
        (unpaired, "block", "left out because one of the two trials failed or is missing"),
    ]
    return [f"{counted(count, what)} {why}." for count, what, why in said if count]


def _left_out(content: Content) -> list[str]:
    statuses = Counter(content.failures["status"].to_pylist())
    failed = ", ".join(f"{count} {status}" for status, count in statuses.most_common())
    total = counted(content.failures.num_rows, "trial")
    unshown = sum(cell.stored.trials for cell in content.cells) - content.trials.num_rows
    said = [f"{total} did not end well: {failed}."] if failed else []
    said += _gaps(content)
    said += [f"A damaged file: {path}." for path in content.torn_files]
    if unshown:
        said.append(f"{counted(unshown, 'trial')} of smaller effects are not in this file.")
    return said


def _gaps(content: Content) -> list[str]:
    """Trials that were planned and are not there."""
    lacking = sum(row["planned"] - row["recorded"] for row in content.sweeps.to_pylist())
    what = f"{counted(lacking, 'trial')} planned and not recorded: launch again to resume."
    return [what] if lacking > 0 else []


def _warned(content: Content) -> list[str]:
    rows = content.environments.to_pylist()
    counts = {name: sum(row[name] for row in rows) for name in WARNINGS}
    return [f"{counted(n, 'trial')}: {name}." for name, n in counts.items() if n]
