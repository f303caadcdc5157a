"""Learns from stored rows when benchmark should be on, for `sweep advise` on a machine without a GPU.

make docs        # writes docs/rules.md and analysis/answering/rules.json

What is learned is the ratio of a job's whole times, on / off, from what is known before the job runs. A job is a
cell that was measured on a GPU, a number of steps and a start. The tree is scored on networks that it did not see.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from cudnn_sweep.analysis.answering.advice import Advice
from cudnn_sweep.analysis.answering.answers import answer_of
from cudnn_sweep.analysis.answering.rules import (
    NEVER_REPEATS,
    Facts,
    Fork,
    Leaf,
    LearnedRule,
    condition,
)
from cudnn_sweep.analysis.asking.database import Database, open_database
from cudnn_sweep.analysis.storing.store import open_store

if TYPE_CHECKING:
    from sklearn.tree import DecisionTreeRegressor

ROOT = Path(__file__).parents[1]
STORES = (
    "analysis/reference",
    "docs/results/h200-2026-11-21/gpus",
    "docs/results/h200-2026-11-21/losses",
    "docs/results/h200-2026-11-21/quick",
    "docs/results/h200-2026-11-21/validation",
    "docs/results/h200-2026-11-22/turns",
)
"""All that hold benchmark off beside on, but for nights in which something was planted."""
STEPS = (100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000)
LEAVES = 8
LEAST_CELLS = (2, 4, 8, 16)
"""Of how many a leaf holds the jobs at least; chosen without the network that is scored."""
DIFFERENCE = 0.02  # as in sql/advice.sql: a smaller one is none, and has no right sign
LOGARITHMIC = {"GFLOP of a step", "GFLOP of a convolution", "distinct sizes", "steps"}
"""So that the tree splits between two of them at their geometric mean."""
FACTS = """
select
    cell_id,
    any_value(workload) as workload,
    any_value(problem) as problem,
    any_value(direction) as direction,
    any_value(input_shape) as input_shape,
    any_value(kernel_size) as kernel_size,
    any_value(stride) as stride,
    any_value(groups) as groups,
    any_value(out_channels) as out_channels,
    any_value("precision") as "precision",
    any_value(layout) as layout,
    max(convolutions) as convolutions,
    max(convolution_flops) as convolution_flops,
    max(regime_shapes) as shapes
from records
where status = 'ok'
group by cell_id
"""
NONE: frozenset[str] = frozenset()
Weigh = Callable[[Sequence["Case"]], list[float]]
Flags: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A job, as it was measured."""

    network: str
    cell_id: str
    gpu: str
    facts: Facts
    row: tuple[float, ...]
    """Its features, as the tree takes them."""
    baseline_s: float
    candidate_s: float

    @property
    def log_ratio(self) -> float:
        return math.log(self.candidate_s / self.baseline_s)

    def time_lost(self, on: bool) -> float:
        """Against the better setting, relative to it."""
        chosen_s = self.candidate_s if on else self.baseline_s
        return chosen_s / min(self.candidate_s, self.baseline_s) - 1


@cache
def cases() -> list[Case]:
    """Of each cell the sweep with most blocks, those in turns first."""
    best: dict[tuple[str, str], tuple[tuple[bool, int], list[Case]]] = {}
    for place in STORES:
        with open_database(open_store(str(ROOT / place))) as database:
            facts = facts_of(database, STEPS[0], "warm")
            known = _whole_times(database)
        for key, row in known.items():
            rank = row.in_turns, row.blocks
            if key not in best or rank > best[key][0]:
                best[key] = rank, list(_jobs(facts[row.cell_id], row))
    return [case for key in sorted(best) for case in best[key][1]]


def facts_of(database: Database, steps: int, start: str) -> dict[str, Facts]:
    """Of each cell that was measured, on whatever device; by its id."""
    rows: list[dict[str, Any]] = database.query(FACTS).to_pylist()
    return {row.pop("cell_id"): _facts(row, steps, start) for row in rows}


def _facts(row: Mapping[str, Any], steps: int, start: str) -> Facts:
    known: dict[str, Any] = {
        name: tuple(each) if isinstance(each, list) else each for name, each in row.items()
    }
    return Facts(**known, steps=steps, start=start)


def _whole_times(database: Database) -> dict[tuple[str, str], Advice]:
    return {
        (row.cell_id, row.start): row
        for row in answer_of(Advice, database, "advice", {"steps": STEPS[-1]})
        if row.ratio is not None and row.no_effect_reason is None
    }


def _jobs(cell: Facts, longest: Advice) -> Iterator[Case]:
    """A job's time grows by as much with every step."""
    known = asdict(cell)
    assert longest.baseline_s and longest.candidate_s
    assert longest.baseline_ms and longest.candidate_ms
    for steps in STEPS:
        fewer = longest.job_steps - steps
        facts = Facts(**known | {"steps": steps, "start": longest.start})
        yield Case(
            network=network(facts),
            cell_id=longest.cell_id,
            gpu=longest.gpu,
            facts=facts,
            row=tuple(_scaled(*each) for each in facts.features().items()),
            baseline_s=longest.baseline_s - fewer * longest.baseline_ms / 1000,
            candidate_s=longest.candidate_s - fewer * longest.candidate_ms / 1000,
        )


def network(facts: Facts) -> str:
    """Which network a cell is of: none of it is learned from when it is scored."""
    if facts.problem is None:
        module, _, name = facts.workload.rpartition(":")
        found = module.rpartition(".")[2] if ".nets." in module else name
        return f"{found}3d" if found == "unet" and len(facts.input_shape) == 5 else found
    problems, _, name = facts.problem.partition("/")
    if problems not in ("networks", "tutorials"):
        return problems
    first = name.partition("_")[0]
    return {"r3d18": "r3d_18"}.get(first, first)


def a_network_each(known: Sequence[Case]) -> list[float]:
    """Weights with which each network counts as much, however many of its cells were measured."""
    cases_of = Counter(case.network for case in known)
    return [1 / cases_of[case.network] for case in known]


def a_job_each(known: Sequence[Case]) -> list[float]:
    return [1.0] * len(known)


class Jobs:
    """Cases as arrays. Trees are learned from those of all networks but some, each tree once."""

    def __init__(self, known: Sequence[Case], weigh: Weigh) -> None:
        """A weight must not depend on which other networks there are."""
        self.known = known
        self._rows = np.array([case.row for case in known], np.float32)
        self._logs = np.array([case.log_ratio for case in known])
        self._lost = {on: np.array([case.time_lost(on) for case in known]) for on in (False, True)}
        self._weights = np.array(weigh(known))
        self.networks = sorted({case.network for case in known})
        networks = np.array([case.network for case in known])
        self._of = {name: networks == name for name in self.networks}
        cells = {(case.network, case.cell_id) for case in known}
        self._cells_of = Counter(network for network, _ in cells)
        self._trees: dict[tuple[frozenset[str], int], DecisionTreeRegressor] = {}

    def tree(self, least_cells: int, unseen: frozenset[str] = NONE) -> "DecisionTreeRegressor":
        """With so many cells a leaf at least, of which none is of these networks."""
        if (unseen, least_cells) not in self._trees:
            self._trees[unseen, least_cells] = self._fitted(least_cells, unseen)
        return self._trees[unseen, least_cells]

    def _fitted(self, least_cells: int, unseen: frozenset[str]) -> "DecisionTreeRegressor":
        from sklearn.tree import DecisionTreeRegressor

        names = [name for name in self.networks if name not in unseen]
        seen = np.any([self._of[name] for name in names], axis=0)
        jobs_of_a_cell = seen.sum() / sum(self._cells_of[name] for name in names)
        tree = DecisionTreeRegressor(
            max_leaf_nodes=LEAVES,
            min_samples_leaf=int(least_cells * jobs_of_a_cell),
            random_state=0,
        )
        return tree.fit(self._rows[seen], self._logs[seen], self._weights[seen], check_input=False)

    def advised(self, name: str, least_cells: int, unseen: frozenset[str] = NONE) -> "Flags":
        """For each case of a network, on or not, by a tree that saw neither it nor `unseen`."""
        tree = self.tree(least_cells, unseen | {name})
        on: Flags = tree.predict(self._rows[self._of[name]], check_input=False) < 0
        return on

    def judged(self, name: str, least_cells: int) -> Iterator[tuple[Case, bool]]:
        cases = (case for case in self.known if case.network == name)
        return zip(cases, map(bool, self.advised(name, least_cells)), strict=True)

    def best_size(self, unseen: frozenset[str] = NONE) -> int:
        """Of LEAST_CELLS, what loses least time on networks left out of the others."""

        def lost(size: int) -> float:
            total = 0.0
            for name in self.networks:
                if name not in unseen:
                    mine = self._of[name]
                    on = self.advised(name, size, unseen)
                    times = np.where(on, self._lost[True][mine], self._lost[False][mine])
                    total += float(self._weights[mine] @ times)
            return total

        return min(LEAST_CELLS, key=lost)


def _scaled(name: str, value: float) -> float:
    return math.log10(max(value, 1 / NEVER_REPEATS)) if name in LOGARITHMIC else value


@cache
def jobs_of_cases(weigh: Weigh) -> Jobs:
    return Jobs(cases(), weigh)


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    rule: str
    right: float
    """Share of the jobs whose times differ."""
    of_jobs: int
    lost: float
    """Mean over all jobs."""


def score(rule: str, judged: Sequence[tuple[Case, bool]]) -> Score:
    differing = [each for each in judged if abs(each[0].log_ratio) > math.log(1 + DIFFERENCE)]
    return Score(
        rule=rule,
        right=sum(on == (case.log_ratio < 0) for case, on in differing) / len(differing),
        of_jobs=len(differing),
        lost=sum(case.time_lost(on) for case, on in judged) / len(judged),
    )


def leaf(setting: str, jobs: Sequence[Case]) -> Leaf:
    """Weighed like the tree."""
    weights = a_network_each(jobs)
    pairs = zip(weights, jobs, strict=True)
    mean = sum(weight * case.log_ratio for weight, case in pairs) / sum(weights)
    return Leaf(setting=setting, ratio=_rounded(math.exp(mean)), jobs=len(jobs))


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def on_if_fixed(known: Sequence[Case]) -> Fork:
    fixed = [case for case in known if case.facts.shapes == 1]
    others = [case for case in known if case.facts.shapes != 1]
    return Fork(
        feature="distinct sizes", at=1.0, below=leaf("on", fixed), above=leaf("off", others)
    )


ONE_LINE: dict[str, Callable[[Sequence[Case]], Fork | Leaf]] = {
    "always on": lambda known: leaf("on", known),
    "always off": lambda known: leaf("off", known),
    "fixed sizes: on, else off": on_if_fixed,
}
TREE, OTHER_TREE = "the tree", "the tree, if each job counts as much"


def learned(jobs: Jobs) -> Fork | Leaf:
    """A tree of all of them, in units that people read."""
    tree = jobs.tree(jobs.best_size()).tree_
    names = list(jobs.known[0].facts.features())

    def node(index: int, reaching: Sequence[Case]) -> Fork | Leaf:
        if tree.children_left[index] < 0:
            return leaf("on" if tree.value[index].item() < 0 else "off", reaching)
        name, at = names[tree.feature[index]], tree.threshold[index].item()
        at = _rounded(10**at if name in LOGARITHMIC else at)
        sides = [
            node(child, [case for case in reaching if (case.facts.features()[name] > at) == above])
            for child, above in (
                (tree.children_left[index], False),
                (tree.children_right[index], True),
            )
        ]
        below, above = sides
        leaves = [each for each in sides if isinstance(each, Leaf)]
        if len(leaves) == 2 and leaves[0].setting == leaves[1].setting:
            return leaf(leaves[0].setting, reaching)  # two ratios, and the same advice
        return Fork(feature=name, at=at, below=below, above=above)

    return node(0, jobs.known)


@cache
def scores() -> dict[str, Score]:
    known = cases()
    found = []
    for name, weigh in ((TREE, a_network_each), (OTHER_TREE, a_job_each)):
        jobs = jobs_of_cases(weigh)
        sizes = {each: jobs.best_size(frozenset([each])) for each in jobs.networks}
        judged = [pair for each, size in sizes.items() for pair in jobs.judged(each, size)]
        found.append(score(name, judged))
    for name, make in ONE_LINE.items():
        rule = shipped_as(name, make(known), found[0])
        answers = [(case, rule.ask(case.facts).setting == "on") for case in known]
        found.append(score(name, answers))
    return {each.rule: each for each in found}


def shipped_as(name: str, tree: Fork | Leaf, scored: Score) -> LearnedRule:
    known = cases()
    return LearnedRule(
        name=name,
        tree=tree,
        right=_rounded(scored.right),
        of_jobs=scored.of_jobs,
        lost=_rounded(scored.lost),
        off_right=_rounded(score("", [(case, False) for case in known]).right),
        most_steps=STEPS[-1],
        networks=len({case.network for case in known}),
        gpu=", ".join(sorted({case.gpu for case in known})),
    )


def best_name(scored: dict[str, Score]) -> str:
    """The tree where it beats every rule of one line by both; else the one of these that loses least time."""
    tree, rivals = scored[TREE], [scored[name] for name in ONE_LINE]
    if all(tree.right > rival.right and tree.lost < rival.lost for rival in rivals):
        return TREE
    return min(rivals, key=lambda rival: rival.lost).rule


@cache
def shipped() -> LearnedRule:
    known, name = cases(), best_name(scores())
    tree = learned(jobs_of_cases(a_network_each)) if name == TREE else ONE_LINE[name](known)
    return shipped_as(name, tree, scores()[name])


READING = ("Read it from the top: take the condition that holds, then what stands below it.",)


def rules_json() -> str:
    return json.dumps(asdict(shipped()), indent=1) + "\n"


def rule_lines(node: Fork | Leaf, depth: int = 0) -> Iterator[str]:
    """The rule as text: a condition a line, what holds only with it below it."""
    indent = "    " * depth
    if isinstance(node, Leaf):
        yield f"{indent}{node.setting} (on takes {node.ratio:.3g} times as long)"
        return
    for is_below, child in ((True, node.below), (False, node.above)):
        yield f"{indent}{condition(node, is_below)}"
        yield from rule_lines(child, depth + 1)


def page() -> str:
    known, rule = cases(), shipped()
    rows = [f"| {each.rule} | {each.right:.1%} | {each.lost:.1%} |" for each in scores().values()]
    cells, networks = len({case.cell_id for case in known}), rule.networks
    sizes = ", ".join(
        str(each) for each in sorted({c.facts.shapes for c in known if c.facts.shapes})
    )
    won = (
        "The tree has the right sign more often and loses less time than each rule of one line. So it is the rule."
        if rule.name == TREE
        else f"The tree does not beat each rule of one line by both. So the rule is: {rule.name}."
    )
    return "\n".join(
        [
            "<!-- made by `make docs` -->",
            "# A rule for machines without a GPU",
            "",
            "`sweep advise` measures. Where there is no GPU it answers from this rule, and says so:",
            "",
            *(f"    {line}" for line in rule_lines(rule.tree)),
            "",
            *(READING if isinstance(rule.tree, Fork) else ()),
            "The number in brackets is the mean of the jobs from which the rule was learned: their whole time with",
            "benchmark on, divided by that with it off.",
            "",
            "## How good it is",
            "",
            "| rule | right sign | time lost |",
            "|---|---:|---:|",
            *rows,
            "",
            f"- **Right sign**: share of the {rule.of_jobs:,} jobs whose two times differ by more than {DIFFERENCE:.0%}.",
            "- **Time lost**: the mean over all jobs, against the better setting of each.",
            "- A tree is scored on networks that it did not see: each network is left out once, with its single",
            "  convolutions, and the tree is learned from the others.",
            "",
            won,
            "",
            "How a tree is learned was chosen among about ten ways, on the 1,472 jobs that were stored before the suites",
            "`field` and `claims` were measured. There it had the right sign in 86.9% and lost 3.1%; always off had 80.3%",
            "and lost 8.4%. With the rows of these suites (2,064 jobs) it had 81.7% and 3.1%, always off 82.2% and 7.0%, so",
            "always off was the rule, until the networks had more blocks and sizes that come back.",
            "",
            f"So few networks do not settle which rule is best. The scores hold for jobs like these, on {rule.gpu}. Measure if you can.",
            "",
            "## What it is learned from",
            "",
            f"- **Jobs**: {len(known):,}. Each is one of {cells} cells of {networks} networks, with {STEPS[0]:,} to",
            f"  {STEPS[-1]:,} steps, in a new container or on a warm machine. All were measured on {rule.gpu}.",
            "- **Features**: what is known before a job runs: one convolution or a network, forward or backward, the",
            "  dimensions of space, kernel, stride, groups, whether channels are divisible by 8, precision, layout, the work",
            "  of a step and of a convolution, distinct sizes, steps, and the start. Kernel, stride, groups and channels",
            "  are those of a single convolution; a network has none of its own.",
            f"- **Distinct sizes**: the jobs have {sizes} or a new one each step. What lies between was not measured.",
            f"- **The tree** has {LEAVES} leaves at most, each with the jobs of {jobs_of_cases(a_network_each).best_size()} cells or",
            "  more. It predicts the logarithm of the ratio. Each network counts as much. Two leaves side by side that give",
            "  the same advice are printed as one.",
            "",
            "`docs/rules.py` learns it from the stored rows and writes this page and",
            "[rules.json](../analysis/answering/rules.json).",
            "",
        ]
    )


if __name__ == "__main__":
    (ROOT / "docs/rules.md").write_text(page(), encoding="utf-8")
    (ROOT / "analysis/answering/rules.json").write_text(rules_json(), encoding="utf-8")
