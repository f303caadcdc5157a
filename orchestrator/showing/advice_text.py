"""Advice in words: for a terminal of 80 columns, and as Markdown."""

import shlex
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from cudnn_sweep.analysis.answering.advice import (
    DOES_NOT_FIT,
    FAILS,
    NO_DIFFERENCE,
    UNDECIDED,
    Advice,
    Alternative,
    KernelChange,
)
from cudnn_sweep.analysis.answering.rules import RuleAnswer
from cudnn_sweep.analysis.asking.formats import escaped, two_digits

WIDTH = 80
LABEL = 12
GIB = 2**30
KERNELS_SHOWN = 3
TENSORS_SHOWN = 3
NAME_SHOWN = 46  # characters of a kernel's name
STARTS = {"container": "in a new container", "warm": "on a warm machine"}
HEADLINES = {
    "on": "Turn benchmark on.",
    "off": "Leave benchmark off.",
    NO_DIFFERENCE: "It makes no difference: leave benchmark as it is.",
    DOES_NOT_FIT: "Leave benchmark off: with it the memory does not suffice.",
    FAILS: "Leave benchmark off: with it processes fail.",
    UNDECIDED: "Undecided: leave benchmark off until more is measured.",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """What a store says of a job, and what to call it."""

    sweep_id: str
    workload: str
    advice: Advice | None
    """For the start that was asked for; None without a GPU, where nothing is compared."""
    other: Advice | None
    """For the other one."""
    alternatives: Sequence[Alternative]
    """Other layouts and precisions, as measured."""
    kernels: Sequence[KernelChange]
    by_rule: RuleAnswer | None
    """Without a GPU."""
    times_ms: Sequence[float]
    """Of a step, each process."""
    messages: Sequence[str]
    """Why trials failed."""
    program: str
    again: str
    """What to type to ask once more without measuring."""
    where: Sequence[str]
    input: str | None
    steps: int
    """That the rule is asked for."""

    @property
    def said(self) -> str:
        if self.advice is None:
            return FAILS if self.by_rule is None else self.by_rule.setting
        return self.advice.advice

    @property
    def setting(self) -> str:
        if self.advice is None:
            return "off" if self.by_rule is None else self.by_rule.setting
        return self.advice.setting

    @property
    def lines(self) -> list[str]:
        """What to paste into a program."""
        if self.setting != "on":
            return []
        return ["torch.backends.cudnn.benchmark = True"]


def advice_lines(answered: Answered) -> list[str]:
    """The decision first, then what it rests on: a fact a paragraph, under a word of its own."""
    lines = [_headline(answered), ""]
    if answered.lines:
        lines += [*(f"    {line}" for line in answered.lines), ""]
    for label, text in _facts(answered):
        lines += textwrap.wrap(
            text,
            WIDTH,
            initial_indent=f"{label:<{LABEL}}",
            subsequent_indent=" " * LABEL,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return [*lines, "", *_next_lines(answered)]


def advice_markdown(answered: Answered) -> str:
    code = ["```python", *answered.lines, "```", ""] if answered.lines else []
    rows = [f"| {label} | {escaped(text)} |" for label, text in _facts(answered)]
    return "\n".join(
        [
            f"**{_headline(answered)}**",
            "",
            *code,
            "| | |",
            "|---|---|",
            *rows,
            "",
            "```",
            *_next_lines(answered),
            "```",
        ]
    )


def _headline(answered: Answered) -> str:
    advice = answered.advice
    if not answered.times_ms:
        return f"{answered.workload} does not run here."
    if advice is None:
        return f"Not measured, as there is no GPU here. By a learned rule: {HEADLINES[answered.setting]}"
    if advice.advice == UNDECIDED:
        needs = _minutes(advice.minutes_needed)
        return f"{HEADLINES[UNDECIDED]} {needs}" if needs else HEADLINES[UNDECIDED]
    if advice.advice == DOES_NOT_FIT and advice.baseline_failed and not advice.blocks:
        return "It does not fit, with benchmark on or off."
    if advice.advice == FAILS and advice.setting == "on":
        return "Turn benchmark on: without it processes fail."
    return HEADLINES[advice.advice]


def _minutes(needed: float | None) -> str:
    if needed is None:
        return ""
    return f"It needs about {two_digits(max(needed, 0.1))} more minutes (--minutes)."


def _facts(answered: Answered) -> Iterator[tuple[str, str]]:
    advice, other = answered.advice, answered.other
    if not answered.times_ms:
        told = Counter(answered.messages).most_common(1)
        yield "Why", told[0][0] if told else "nothing was recorded"
        yield "Try", _remedy(told[0][0] if told else "")
        return
    if advice is None or advice.no_effect_reason == "no_cuda":
        if answered.by_rule is not None:
            yield from _rule(answered.by_rule, answered.steps)
        times = answered.times_ms
        yield (
            "A step",
            (
                f"{_ms(median(times))} on this CPU ({len(times)} processes, {_ms(min(times))} to "
                f"{_ms(max(times))}); the rule does not use it"
            ),
        )
        yield (
            "Then",
            "run the same command on the machine with the GPU: it measures instead of using the rule",
        )
        return
    yield "Because", advice.why
    for row in (advice, other):
        if row is not None and row.ratio is not None:
            yield "Your job" if row is advice else "", _whole(row)
    yield from _details(advice, other)
    yield from _memory(advice)
    yield from _results(advice)
    yield from _why(answered.kernels)
    yield from _else(answered.alternatives)


def _rule(told: RuleAnswer, steps: int) -> Iterator[tuple[str, str]]:
    rule = told.rule
    conditions = f", where {', '.join(told.conditions)}" if told.conditions else ""
    yield (
        "The rule",
        (
            f"for {steps:,} steps{conditions}, it says {told.setting}: jobs it was learned from took {told.ratio:.3g} "
            "times as long with on"
        ),
    )
    yield (
        "How sure",
        (
            f"the rule was right in {rule.right:.0%} of {rule.of_jobs:,} jobs on {rule.gpu}, of networks that it had not "
            f"seen; by the rule a job lost {rule.lost:.1%} of its time on average"
        ),
    )


def _whole(row: Advice) -> str:
    where = STARTS[row.start]
    if row.baseline_s is None or row.candidate_s is None or row.saved_s is None:
        return where
    saved = row.saved_s
    text = (
        f"{row.job_steps:,} steps {where}: {_time(row.candidate_s)} on, {_time(row.baseline_s)} off; on "
        f"{'saves' if saved >= 0 else 'costs'} {_time(abs(saved))}"
    )
    if row.saved_s_low is None or row.saved_s_high is None or row.ratio is None:
        return text
    low, high = row.saved_s_low, row.saved_s_high
    if saved < 0:
        low, high = -high, -low
    assert row.ratio_low is not None and row.ratio_high is not None
    return (
        f"{text} (95%: {_signed(low)} to {_signed(high)}; ratio {row.ratio:.3f}, {row.ratio_low:.3f} to "
        f"{row.ratio_high:.3f})"
    )


def _details(advice: Advice, other: Advice | None) -> Iterator[tuple[str, str]]:
    if advice.sure is not None and advice.ratio is not None:
        faster = "on" if advice.ratio < 1 else "off"
        yield (
            "How sure",
            (
                f"{min(advice.sure, 0.999):.1%} that {faster} is faster, by {advice.blocks} blocks of a process "
                f"each way, {advice.start_blocks} of them {STARTS[advice.start]}"
            ),
        )
    if advice.step_ratio is not None and advice.baseline_ms and advice.candidate_ms:
        waits = "; the loop waits for the CPU" if advice.launch_bound else ""
        yield (
            "A step",
            (
                f"{_ms(advice.baseline_ms)} off, {_ms(advice.candidate_ms)} on: {advice.step_ratio:.3f}"
                f"{_interval(advice.step_ratio_low, advice.step_ratio_high)}{waits}"
            ),
        )
    starts = [row for row in (advice, other) if row is not None and row.extra_start_s is not None]
    if starts:
        yield "A start", "; ".join(map(_start, starts))
    breaks = [row for row in starts if row.break_even_steps is not None]
    if breaks:
        yield "Break-even", "; ".join(map(_break_even, breaks))
    if advice.new_shape_ms is not None and (advice.first_calls or 0) > 1:
        met = f"{advice.first_calls:,.0f} of them in this job"
        yield "New sizes", f"each further one costs {_ms(advice.new_shape_ms)} more with on; {met}"
    on, off = advice.candidate_cache_saves_s, advice.baseline_cache_saves_s
    if on is not None and off is not None:
        yield (
            "Cache",
            f"CUDA_CACHE_PATH kept on a volume saves {_signed(on)} a start with on, {_signed(off)} with off",
        )


def _start(row: Advice) -> str:
    assert row.extra_start_s is not None
    low, high = row.extra_start_s_low, row.extra_start_s_high
    interval = "" if low is None or high is None else f" ({_signed(low)} to {_signed(high)})"
    return f"on takes {_signed(row.extra_start_s)} longer {STARTS[row.start]}{interval}"


def _break_even(row: Advice) -> str:
    assert row.break_even_steps is not None
    low, high = row.break_even_low, row.break_even_high
    interval = "" if low is None or high is None else f" ({two_digits(low)} to {two_digits(high)})"
    return f"{two_digits(row.break_even_steps)} steps{interval} {STARTS[row.start]}"


def _memory(advice: Advice) -> Iterator[tuple[str, str]]:
    pairs = [
        (advice.baseline_first_bytes, advice.candidate_first_bytes, "at the first steps"),
        (
            advice.baseline_steady_reserved_bytes,
            advice.candidate_steady_reserved_bytes,
            "later",
        ),
    ]
    told = [
        f"{on / GIB:.2f} GiB on, {off / GIB:.2f} GiB off {when}"
        for off, on, when in pairs
        if on and off
    ]
    if told:
        yield "Memory", "; ".join(told)


def _results(advice: Advice) -> Iterator[tuple[str, str]]:
    if not advice.candidate_results or not advice.baseline_results:
        return
    if advice.candidate_results == advice.baseline_results == 1:
        yield "Results", "every process computes the same bits, with on and with off"
        return
    text = (
        f"{advice.baseline_results} different among the processes with off, {advice.candidate_results} "
        "with on, from equal weights and inputs"
    )
    tensors = list(advice.candidate_varies_in or ())
    if tensors:
        more = len(tensors) - TENSORS_SHOWN
        shown = ", ".join(tensors[:TENSORS_SHOWN])
        text += f"; with on they differ in {shown}" + (f" and {more} more" if more > 0 else "")
    yield "Results", text


def _why(kernels: Sequence[KernelChange]) -> Iterator[tuple[str, str]]:
    for place, each in enumerate(kernels[:KERNELS_SHOWN]):
        name = each.kernel if len(each.kernel) <= NAME_SHOWN else f"{each.kernel[:NAME_SHOWN]}..."
        yield (
            "Kernels" if place == 0 else "",
            f"{each.operation}: {name} {each.baseline} times a step off, {each.candidate} times on",
        )
    if len(kernels) > KERNELS_SHOWN:
        yield "", f"and {len(kernels) - KERNELS_SHOWN} more that are not the same"


def _else(alternatives: Sequence[Alternative]) -> Iterator[tuple[str, str]]:
    for place, each in enumerate(each for each in alternatives if each.ratio is not None):
        assert each.ratio is not None
        yield (
            "Also" if place == 0 else "",
            (
                f"{each.contrast}: a step takes {each.ratio:.3f} of the time"
                f"{_interval(each.ratio_low, each.ratio_high)}"
            ),
        )


def _next_lines(answered: Answered) -> Iterator[str]:
    query = [answered.program, "query", "failures", *answered.where]
    if not answered.times_ms:
        yield f"Next: {shlex.join([*query, '--sweep-id', answered.sweep_id])}"
        return
    if answered.kernels and answered.input and ":" in answered.workload:
        trace = [answered.program, "trace", answered.workload, "--input", answered.input]
        yield f"Which layers: {shlex.join(trace)}"
    yield f"Without measuring again: {answered.again}"


def _remedy(message: str) -> str:
    text = message.lower()
    if "out of memory" in text:
        return "a smaller batch, a smaller size, or --precision amp_bf16"
    if "size" in text or "shape" in text or "expected" in text:
        return (
            "other sizes with --input; a model that takes more than one float tensor needs --inputs"
        )
    if "import" in text or "module" in text:
        return "the environment in which the model is trained: sweep has to be installed there"
    return "the model alone, with one random input of this size, in Python"


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" ({low:.3f} to {high:.3f})"


def _ms(value: float) -> str:
    return f"{value:.3g} ms" if abs(value) < 1000 else f"{value:,.0f} ms"


def _time(seconds: float) -> str:
    """As a person says it: `4 min 10 s`."""
    if seconds < 0.1:
        return f"{1000 * seconds:.2g} ms"
    if seconds < 100:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 100:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min"


def _signed(seconds: float) -> str:
    return f"-{_time(-seconds)}" if seconds < 0 else _time(seconds)
