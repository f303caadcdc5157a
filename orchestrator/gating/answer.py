"""Result of a gate, and the answer that reports it."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from cudnn_sweep.analysis.answers import answer
from cudnn_sweep.analysis.engine.settings import as_text
from cudnn_sweep.analysis.results.advice import KernelChange
from cudnn_sweep.analysis.results.answers import AnswerRow
from cudnn_sweep.analysis.results.verdicts import Verdict
from cudnn_sweep.analysis.words import counted, milliseconds, percent, ratio, some, two_digits
from cudnn_sweep.analysis.words import interval as ends_of
from cudnn_sweep.orchestrator.planning.spelling import program

State = Literal["slower", "broken", "not slower", "faster", "cannot tell yet"]
STATES: dict[State, answer.State] = {
    "not slower": "fine",
    "faster": "fine",
    "slower": "worse",
    "broken": "does not run",
    "cannot tell yet": "cannot tell",
}
NAMED = 3  # kernels or files that are listed
WIDE = 2.0  # intervals beyond this ratio or its inverse are not printed


@dataclass(frozen=True, kw_only=True)
class Gate:
    workload: str
    base: str
    head: str
    gpu: str = ""
    sweep_id: str = ""
    threshold: float
    state: State
    row: Verdict | None = None
    alone: Sequence[AnswerRow] = ()
    """Results of the A/A pairs of each side, with kind `base` or `head`."""
    false_alarms: float | None = None
    """Share of changes without effect that the gate would report as slower."""
    least_found: float | None = None
    """Slowdown that the gate finds in four of five cases, as a share of the time at base."""
    kernels: Sequence[KernelChange] = ()
    different: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Values at base and at head of each setting that differs."""
    messages: dict[str, str] = field(default_factory=dict)
    """Messages of failed trials, by the label of the side."""
    notes: Sequence[str] = ()
    """Sentences about the sides that are measured."""
    changed: Sequence[str] = ()
    """Files that changed while they were measured."""
    passes_undecided: bool = False
    results: Sequence[str] = ()
    """Options of `sweep query` that name this gate's results."""

    def answer(self) -> answer.Answer:
        is_undecided, ratio = self.state == "cannot tell yet", self.row and self.row.ratio
        is_excused = is_undecided and self.passes_undecided and not self.changed
        of_base = answer.Family(
            name="ratio",
            meaning="time of a step at HEAD divided by its time at BASE",
            samples=[({}, ratio or 0)],
        )
        return answer.Answer(
            kind="gate",
            subject=self.workload,
            state="excused" if is_excused else STATES[self.state],
            headline=self.headline,
            sections=[answer.Section(rows=list(self.facts()))],
            commands=[("More", self.query())] if self.row is not None else (),
            values=vars(self),
            families=[of_base] if ratio else (),
        )

    @property
    def headline(self) -> str:
        row = self.row
        if self.changed:
            files = some(self.changed, NAMED)
            return f"Cannot tell: files changed while they were measured: {files}."
        if self.state == "broken":
            return f"Broken: {self.workload} does not run at {self.head}."
        if row is None or row.ratio is None:
            if self.base in self.messages:
                return f"Cannot tell: {self.workload} does not run at {self.base}."
            return f"Cannot tell yet: {self.workload} has too few blocks with both sides."
        change = f"{ratio(row.ratio)} of the time{_ends(row.ratio_low, row.ratio_high)}"
        words = {
            "slower": f"Slower by more than {percent(self.threshold)}",
            "not slower": f"Not slower by more than {percent(self.threshold)}",
            "faster": "Faster",
        }
        return f"{words.get(self.state, 'Cannot tell yet')}: a step takes {change}."

    def facts(self) -> Iterator[tuple[str, str]]:
        row = self.row
        for note in self.notes:
            yield "Sides", note
        for name, (base, head) in self.different.items():
            yield "Also differs", f"{name}: {base} at base, {head} at head"
        for side, message in self.messages.items():
            yield "Why", f"{side}: {message}"
        if row is not None and row.baseline_ms is not None:
            base, head = milliseconds(row.baseline_ms), milliseconds(row.candidate_ms)
            blocks = counted(row.blocks, "block")
            yield "A step", f"{base} at base, {head} at head, in {blocks} on {self.gpu}"
            if row.device_ratio is not None:
                ends = _ends(row.device_ratio_low, row.device_ratio_high)
                yield "GPU time", f"{ratio(row.device_ratio)} of the time at base{ends}"
        if self.alone:
            alone = [
                f"{pair.kind} against itself {ratio(pair.ratio)}"
                f"{_ends(pair.ratio_low, pair.ratio_high)}, {counted(pair.pairs, 'pair')}"
                for pair in self.alone
            ]
            yield "A/A", "; ".join(alone)
        if self.false_alarms is not None and self.least_found is not None:
            alarms = f"would report {_share(self.false_alarms)} of changes without effect as slower"
            least = _share(self.least_found) if self.least_found < 1 else "over 100%"
            found = f"would find four of five slowdowns of {least}"
            yield "This gate", f"{alarms}, and {found}"
        if self.kernels:
            changed = [f"{k.kernel} ({k.baseline} → {k.candidate})" for k in self.kernels]
            yield "Kernels", some(changed, NAMED)

    def query(self) -> str:
        """Return the command that prints this gate's verdict."""
        sides = ["--field", "code", "--baseline", as_text(self.base)]
        sides += ["--candidate", as_text(self.head)]
        words = [*sides, "--min-effect", f"{self.threshold:g}", "--sweep-id", self.sweep_id]
        return shlex.join([program(), "query", "helps_or_hurts", *words, *self.results])


def _ends(low: float | None, high: float | None) -> str:
    if low is not None and high is not None and (low < 1 / WIDE or high > WIDE):
        return " (too few blocks for an interval)"
    return ends_of(low, high)


def _share(value: float) -> str:
    return "under 0.1%" if value < 0.001 else f"{two_digits(100 * value)}%"
