"""What a race answers, which config it may set, and when it goes on or ends, of made-up measurements."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

from cudnn_sweep.analysis.answers.answer import Section
from cudnn_sweep.analysis.results.advice import DOES_NOT_FIT, FAILS, UNDECIDED, Advice
from cudnn_sweep.analysis.words import GIB
from cudnn_sweep.orchestrator.steps import levers, racing
from cudnn_sweep.orchestrator.steps.advice_text import Answered
from cudnn_sweep.orchestrator.steps.levers import BENCHMARK, OWN, Changes
from cudnn_sweep.orchestrator.steps.racing import (
    IDLE,
    LENGTHS,
    MOST_STAGES,
    TIME_IS_UP,
    UNFINISHED,
    UNTIL,
    Raced,
    _refused,
    chosen,
    jobs_s,
    race,
    raced,
    stored_race,
)
from cudnn_sweep.orchestrator.steps.step_options import AdviseOptions

LAST: Changes = (("layout", "channels_last"),)
BOTH: Changes = BENCHMARK + LAST
OPTIONS = AdviseOptions(workload="net.py:Net")


def row(ms: float = 5.0, **changes: Any) -> Any:
    """Return advice on a config whose steps take `ms`, and 10 ms in the user's own."""
    usual = {
        "asked": True,
        "advice": "on",
        "is_for_candidate": True,
        "blocks": 4,
        "blocks_with_same_bits": 4,
        "baseline_results": 1,
        "baseline_failed": 0,
        "candidate_failed": 0,
        "candidate_first_bytes": None,
        "input_shape": "2x3x8x8",
        "job_steps": 1000,
        "baseline_ms": 10.0,
        "candidate_ms": ms,
        "step_ratio": ms / 10,
        "step_ratio_high": ms / 10 + 0.05,
        "baseline_s": 10.0,
        "candidate_s": ms,
        "extra_start_s": 0.0,
        "ratio": ms / 10,
        "ratio_low": ms / 10 - 0.05,
        "ratio_high": ms / 10 + 0.05,
        "other_settings": "",
    }
    return SimpleNamespace(**usual | changes)


def found(
    best: Changes = LAST,
    advices: Mapping[Changes, Any] | None = None,
    l2_errors: Mapping[Changes, float] = {},
    idle: float = 0.0,
    **of: Any,
) -> Raced:
    """Return a race's answer; `l2_errors` by config, `idle`: the GPU's share of the own config's step."""
    advices = {LAST: row()} if advices is None else advices
    usual: dict[str, Any] = {
        "options": OPTIONS,
        "sweep_id": "race-*",
        "advice": advices.get(best),
        "advices": advices,
        "out": {},
        "left_out": {},
        "times_ms": [10.0],
    } | of
    trials: dict[Changes, Any] = {
        changes: SimpleNamespace(
            l2_error=l2_errors.get(changes), busy=1 - idle if changes == OWN else None
        )
        for changes in (OWN, best, *advices, *usual["out"])
    }
    return Raced(best=best, trials=trials, **usual)


@pytest.mark.parametrize(
    ("of", "said", "headline"),
    [
        (found(), "channels_last", "Set channels_last: 1,000 steps take 5.00 s instead of 10.0 s."),
        (
            found(advices={LAST: row(9.5)}),
            UNDECIDED,
            "Undecided: so far channels_last is the fastest.",
        ),
        (
            found(OWN, {}),
            "as it is",
            "Leave your config as it is. No allowed setting makes your job shorter.",
        ),
        (
            found(OWN, {}, cut=TIME_IS_UP),
            UNDECIDED,
            "Leave your config as it is. So far, no allowed setting makes your job shorter.",
        ),
        (
            found(times_ms=[]),
            FAILS,
            "Set channels_last: 1,000 steps take 5.00 s instead of 10.0 s.",
        ),
    ],
)
def test_a_config_is_set_if_its_interval_lies_below_the_users_own(
    of: Raced, said: str, headline: str
) -> None:
    assert (of.said, of.headline) == (said, headline)


@pytest.fixture
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """An advice has two facts, and no table of its own."""
    monkeypatch.setattr(
        Raced, "facts_of", lambda *_: iter([("Because", "it saves"), ("How sure", "99%")])
    )
    monkeypatch.setattr(Answered, "tables", lambda _: iter(()))


@pytest.mark.usefixtures("_plain")
@pytest.mark.parametrize(
    ("of", "facts"),
    [
        (
            found(),
            [("Because", "it saves"), ("How sure", "99%"), ("Bits", "the same as your config's")],
        ),
        (
            found(advices={LAST: row(9.5, baseline_results=0)}),
            [("How sure", "99%")],
        ),
        (
            found(advices={LAST: row(is_for_candidate=False, blocks_with_same_bits=3)}),
            [("How sure", "99%"), ("Bits", "different from your config's")],
        ),
        (found(OWN, {}, idle=IDLE, l2_errors={OWN: 1e-3}), []),
        (
            found(OWN, {}, idle=0.5),
            [("GPU", "waits for the CPU during 50% of your step")],
        ),
        (
            found(advices={LAST: row(baseline_results=0)}, l2_errors={OWN: 1e-3, LAST: 2e-3}),
            [
                ("Because", "it saves"),
                ("How sure", "99%"),
                ("Error", "0.00200 instead of 0.00100, relative to float64"),
            ],
        ),
        (
            found(advices={LAST: row(baseline_results=0)}, l2_errors={LAST: 2e-3}),
            [("Because", "it saves"), ("How sure", "99%")],
        ),
        (
            found(OWN, {}, out={BENCHMARK: "fails"}, left_out={"compile": "no g++"}, cut="stopped"),
            [
                ("Left out", "benchmark: fails"),
                ("", "compile: no g++"),
                ("Ended early", "stopped; the same command resumes the race"),
            ],
        ),
    ],
)
def test_facts_say_what_the_answer_rests_on(of: Raced, facts: list[tuple[str, str]]) -> None:
    assert list(of.facts()) == facts


@pytest.mark.usefixtures("_plain")
def test_tables_have_the_shortest_job_first_and_set_nothing_that_is_out() -> None:
    rows = {LAST: row(5.0), BENCHMARK: row(4.0), BOTH: row(8.0)}
    raced_table, lengths = found(advices=rows, out={BENCHMARK: "fails"}).tables()
    assert [line[0] for line in raced_table.rows] == [
        "benchmark",
        "channels_last *",
        "benchmark + channels_last",
    ]
    assert [line[0] for line in lengths.rows] == [f"{steps:,}" for steps in LENGTHS]
    assert {line[1] for line in lengths.rows} == {"channels_last"}
    assert list(found(OWN, {}).tables()) == []
    only: list[Section] = list(found(OWN, {LAST: row()}, out={LAST: "fails"}).tables())
    assert [len(table.rows) for table in only] == [1, 0]


def test_a_cut_race_is_resumed_with_its_minutes() -> None:
    plain, cut = found(), found(cut=TIME_IS_UP)
    assert [name for name, _ in plain.commands()] == ["Without measuring again"]
    timed = replace(cut, options=replace(OPTIONS, minutes=5.0))
    assert dict(cut.commands())["Resume"] == OPTIONS.command()
    assert dict(timed.commands())["Resume"] == f"{OPTIONS.command()} --minutes 5"


@pytest.mark.parametrize(
    ("best", "of_row", "without", "seconds"),
    [
        (BENCHMARK, {}, None, 4.0),
        (BENCHMARK, {"extra_start_s_low": 0.02}, None, None),
        (BENCHMARK, {"ratio_high": 1.1}, None, None),
        (BOTH, {}, row(extra_start_s=1.0, extra_start_s_high=1.5), 3.0),
        (BOTH, {}, row(extra_start_s=1.0, extra_start_s_high=2.99), None),
        (BOTH, {}, None, None),
        (LAST, {}, row(extra_start_s=1.0, extra_start_s_high=1.5), None),
        ((*BENCHMARK, ("execution", "compile")), {}, None, None),
    ],
)
def test_a_search_that_a_job_notices_is_named_with_the_command_that_keeps_its_choice(
    monkeypatch: pytest.MonkeyPatch,
    best: Changes,
    of_row: dict[str, Any],
    without: Any,
    seconds: float | None,
) -> None:
    """The job takes 5 s; a search counts from 25 ms on."""
    monkeypatch.setattr(Raced, "facts_of", lambda *_: iter(()))
    advices = {best: row(extra_start_s=4.0, **{"extra_start_s_low": 3.0} | of_row)}
    answer = found(best, advices | ({LAST: without} if without and best != LAST else {}))
    assert answer.search_s == seconds
    assert ("Search" in dict(answer.facts())) == (seconds is not None)
    layout = " --layout channels_last" * (best == BOTH)
    command = f"{OPTIONS.program} freeze {OPTIONS.workload}{layout}"
    assert dict(answer.commands()).get("Without the search") == (command if seconds else None)


def test_values_have_each_config_with_its_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Answered, "values", lambda _: {})
    values = found(out={LAST: "other bits", BENCHMARK: "fails"}, l2_errors={LAST: 1.0}).values()
    configs: Any = values["configs"]
    assert [(config["changes"], config["failure"]) for config in configs] == [
        ({"layout": "channels_last"}, None),
        ({"benchmark": "true"}, "fails"),
    ]


@pytest.mark.parametrize(
    ("jobs", "best"),
    [
        ({OWN: 1.0, LAST: 0.5, BENCHMARK: 0.6}, LAST),
        ({OWN: 1.0, LAST: 1.0}, OWN),
        ({OWN: 1.005, LAST: 1.0}, OWN),
        ({OWN: 1.006, LAST: 1.0}, LAST),
        ({OWN: 9.0, LAST: 1.001, BOTH: 1.0}, LAST),
        ({OWN: 9.0, LAST: 1.001, BENCHMARK: 1.0, BOTH: 0.999}, BENCHMARK),
    ],
)
def test_of_configs_that_are_as_good_as_the_best_the_fewest_changes_are_chosen(
    jobs: Mapping[Changes, float], best: Changes
) -> None:
    assert chosen(jobs) == best


def test_a_job_of_another_length_has_the_steps_more_or_less() -> None:
    rows = {LAST: row(5.0, blocks=2, baseline_s=99.0), BENCHMARK: row(4.0, blocks=3)}
    assert jobs_s(rows) == {OWN: 10.0, LAST: 5.0, BENCHMARK: 4.0}
    assert jobs_s(rows, 2000) == {OWN: 20.0, LAST: 10.0, BENCHMARK: 8.0}
    assert jobs_s(rows, 900) == {OWN: 9.0, LAST: 4.5, BENCHMARK: 3.6}
    assert jobs_s({}) == {OWN: 0.0}


@pytest.mark.parametrize(
    ("changes", "of_row", "why"),
    [
        ({}, {}, None),
        ({}, {"candidate_failed": 1, "advice": FAILS}, FAILS),
        ({}, {"candidate_failed": 1, "advice": DOES_NOT_FIT}, DOES_NOT_FIT),
        ({}, {"candidate_failed": 1, "baseline_failed": 1, "advice": FAILS}, None),
        ({}, {"candidate_failed": 1, "advice": "on"}, None),
        ({"memory_limit": 2.0}, {"candidate_first_bytes": 2 * GIB}, None),
        ({"memory_limit": 2.0}, {"candidate_first_bytes": 3 * GIB}, "needs 3.00 GiB"),
        ({"memory_limit": 2.0}, {}, None),
        ({}, {"candidate_first_bytes": 3 * GIB}, None),
        ({"same_bits": True}, {}, None),
        ({"same_bits": True}, {"blocks_with_same_bits": 3}, "computes other bits"),
        ({"same_bits": True}, {"blocks": 0, "blocks_with_same_bits": 0}, "computes other bits"),
        ({}, {"blocks_with_same_bits": 3}, None),
    ],
)
def test_a_config_may_not_be_set_that_fails_more_or_needs_too_much_or_has_other_bits(
    changes: dict[str, Any], of_row: dict[str, Any], why: str | None
) -> None:
    assert _refused(row(**of_row), replace(OPTIONS, **changes)) == why


def trials(settings: str, **changes: Any) -> Any:
    usual = {"times_ms": [5.0], "failures": (), "warnings": (), "l2_error": None, "busy": None}
    return SimpleNamespace(settings=settings, **usual | changes)


def test_the_records_of_all_stages_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row with most blocks counts, of the job that is asked about; other levers' configs do not."""
    last, compiled = "layout=channels_last", "execution=compile"
    of_configs = [
        trials("", busy=0.7, l2_error=1e-3),
        trials(last),
        trials("benchmark=true", times_ms=None, failures=[{"message": "no\nmemory"}]),
        trials(compiled),
    ]
    rows = [
        row(4.0, other_settings=f"{last} beside as it is", blocks=5),
        row(5.0, other_settings=last, blocks=3),
        row(6.0, other_settings=last, asked=False),
        row(1.0, other_settings=compiled),
        row(1.0, other_settings="benchmark=true", ratio=None),
    ]
    monkeypatch.setattr(racing, "config_trials", lambda *_: of_configs)
    monkeypatch.setattr(Advice, "of", lambda *_, **__: rows)
    answer = raced(replace(OPTIONS, levers="benchmark,layout"), MagicMock(), "race-1-*")
    assert answer.best == LAST
    assert answer.advices == {LAST: rows[0]}
    assert (answer.advice, answer.other) == (rows[0], rows[2])
    assert answer.out == {BENCHMARK: "no"}
    assert (answer.trials[OWN].l2_error, answer.trials[OWN].busy) == (1e-3, 0.7)
    assert answer.times_ms == [5.0], "of the user's own config"


def test_a_value_raced_beside_other_levers_alone_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    beside = trials("execution=compile layout=channels_last")
    of_configs = [trials(""), trials("execution=cuda_graph"), beside]
    monkeypatch.setattr(racing, "config_trials", lambda *_: of_configs)
    rows = [row(5.0, other_settings="execution=cuda_graph")]
    monkeypatch.setattr(Advice, "of", lambda *_, **__: rows)
    answer = raced(replace(OPTIONS, levers="execution"), MagicMock(), "race-1-*")
    assert answer.left_out == {"compile": "not raced", "reduce_overhead": "not raced"}


def test_precisions_are_raced_after_every_other_lever() -> None:
    named = levers.named_changes(replace(OPTIONS, allow="bf16,fp16"))
    assert [lever for lever, _ in named[-3:]] == ["execution", "precision", "precision"]


def test_the_newest_race_that_measured_a_named_lever_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    races = {
        "race-3-*": found(OWN, {}),
        "race-2-*": found(OWN, {}, out={BENCHMARK: "fails"}),
        "race-1-*": found(),
    }
    monkeypatch.setattr(racing, "open_store", Mock())
    monkeypatch.setattr(racing, "stored_names", lambda *_: ["race-3", "race-2", "race-1"])
    monkeypatch.setattr(racing, "raced", lambda *of: races[of[-1]])
    answer = stored_race(replace(OPTIONS, levers="benchmark,execution"))
    assert answer is not None
    assert answer.out == {BENCHMARK: "fails"}
    monkeypatch.setattr(racing, "stored_names", lambda *_: ["race-3"])
    assert stored_race(OPTIONS) is None


class Stages:
    """A race of so many stages, of which some are stored. Each takes `least_s` to its first look."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        stages: int,
        *,
        stored: Sequence[str] = (),
        left_s: float = 10_000.0,
        complete: Callable[[int], bool] = lambda _: True,
        stopped: str | None = None,
        kept: Mapping[str, str] | None = None,
    ) -> None:
        """`stored`: ids of the stored sweeps; `kept`: what is said of some, instead of that they are complete."""
        self.ran: list[str] = []
        self.said: list[str] = []
        self._stages, self._complete, self._stopped = stages, complete, stopped
        names = list(dict.fromkeys(sweep_id.rpartition("-")[0] for sweep_id in stored))
        states = [SimpleNamespace(sweep_id=sweep_id, plan_hash="plan") for sweep_id in stored]
        told = kept or {}
        for name, value in {
            "open_store": lambda _: SimpleNamespace(sweeps=lambda: states),
            "_planned": self._planned,
            "raced": self._raced,
            "stored_names": lambda *_: names,
            "new_sweep_id": lambda: "new",
            "differs": lambda state, _: told.get(state.sweep_id) == "differs",
            "lacks": lambda _, state, __: told.get(state.sweep_id) == "lacks",
            "left_of_minutes_s": lambda _: left_s,
            "run_sweep": self._run,
            "say": lambda _, text: self.said.append(text),
        }.items():
            monkeypatch.setattr(racing, name, value)
        monkeypatch.setattr(levers, "offered", lambda *_: ([*LAST], {"compile": "no g++"}))
        monkeypatch.setattr(levers, "next_configs", self._next)

    def race(self) -> Raced:
        return race(OPTIONS, Mock(), Mock(), Mock())

    def _planned(self, *of: Any) -> Any:
        sweep_id = of[3] if len(of) > 3 else None
        chosen_plan = MagicMock(plan_hash="plan")
        chosen_plan.first_look.return_value.estimated_s = lambda blocks, gpu: (
            100.0 * UNTIL.looks[0] * blocks
        )
        options = SimpleNamespace(sweep_id=sweep_id)
        return SimpleNamespace(chosen=chosen_plan, request=SimpleNamespace(options=options))

    def _next(self, rows: Mapping[Changes, Any], *_: Any) -> list[Changes]:
        return [OWN, LAST] if len(rows) < self._stages else []

    def _raced(self, options: Any, store: Any, sweeps: str) -> Raced:
        if "[" not in sweeps:
            return found(sweep_id=sweeps)
        stage = int(sweeps[-2])
        rows: dict[Changes, Any] = {(("layout", str(n)),): row() for n in range(stage)}
        return found(OWN, rows)

    def _run(self, planned: Any, *_: Any) -> Any:
        self.ran.append(planned.request.options.sweep_id)
        complete = self._complete(len(self.ran))
        return Mock(is_complete=complete, progress=SimpleNamespace(stopped=self._stopped))


def test_a_race_ends_when_nothing_is_left_to_try(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = Stages(monkeypatch, 3)
    answer = stages.race()
    assert stages.ran == ["new-1", "new-2", "new-3"]
    assert (answer.cut, answer.left_out, answer.sweep_id) == ("", {"compile": "no g++"}, "new-*")
    assert stages.said[1].startswith("Stage 1: as it is, channels_last; about ")


def test_a_race_has_at_most_nine_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = Stages(monkeypatch, 99)
    stages.race()
    assert stages.ran == [f"new-{number}" for number in range(1, MOST_STAGES + 1)]


def stored_race_of(
    monkeypatch: pytest.MonkeyPatch, settings: Sequence[str], stages: int, **options: Any
) -> Raced:
    """Return the answer of a stored race in which the steps of each of `settings` took half as long."""
    monkeypatch.setattr(racing, "config_trials", lambda *_: [trials(each) for each in settings])
    advice = [row(other_settings=each) for each in settings if each]
    monkeypatch.setattr(Advice, "of", lambda *_, **__: advice)
    store = Mock(sweep_ids=lambda: [f"race-{number}" for number in range(1, stages + 1)])
    return raced(replace(OPTIONS, **options), store, "race-*")


def test_a_config_with_every_named_change_may_be_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = ["", "layout=channels_last", "execution=cuda_graph"]
    answer = stored_race_of(monkeypatch, settings, 1, levers="layout")
    assert (answer.best, set(answer.trials)) == (LAST, {OWN, LAST})


@pytest.mark.parametrize(
    ("stages", "why", "cut"),
    [(2, "not raced", UNFINISHED), (MOST_STAGES, f"not raced in {MOST_STAGES} stages", "")],
)
def test_an_answer_names_the_configs_that_a_race_did_not_reach(
    monkeypatch: pytest.MonkeyPatch, stages: int, why: str, cut: str
) -> None:
    settings = ["", "layout=channels_last", "execution=cuda_graph"]
    answer = stored_race_of(monkeypatch, settings, stages, levers="layout,execution")
    assert answer.left_out["cuda_graph + channels_last"] == why
    assert answer.cut == cut
    settings += ["execution=cuda_graph layout=channels_last"]
    whole = stored_race_of(monkeypatch, settings, stages, levers="layout,execution")
    assert (whole.left_out, whole.cut) == (
        {"compile": "not raced", "reduce_overhead": "not raced"},
        "",
    )


def test_a_stored_race_misses_no_config_that_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ["", "execution=cuda_graph", "precision=amp_fp16"]
    asked = {"levers": "execution", "allow": "amp_fp16"}
    together = "cuda_graph + amp_fp16"
    assert together not in stored_race_of(monkeypatch, settings, 1, **asked).left_out
    inference = stored_race_of(monkeypatch, settings, 1, **asked, direction="inference")
    assert inference.left_out[together] == "not raced"


@pytest.mark.parametrize(
    ("left_s", "ran", "cut"),
    [(99.0, 1, TIME_IS_UP), (100.0, 2, ""), (-5.0, 1, TIME_IS_UP)],
)
def test_a_later_stage_begins_only_if_a_block_of_each_config_fits(
    monkeypatch: pytest.MonkeyPatch, left_s: float, ran: int, cut: str
) -> None:
    """A block of a stage takes 100 s."""
    stages = Stages(monkeypatch, 2, left_s=left_s)
    assert (stages.race().cut, len(stages.ran)) == (cut, ran)


@pytest.mark.parametrize(("stopped", "cut"), [(None, TIME_IS_UP), ("disk full", "disk full")])
def test_a_race_ends_at_a_stage_that_is_cut(
    monkeypatch: pytest.MonkeyPatch, stopped: str | None, cut: str
) -> None:
    stages = Stages(monkeypatch, 3, complete=lambda number: number < 2, stopped=stopped)
    assert (stages.race().cut, len(stages.ran)) == (cut, 2)


@pytest.mark.parametrize(
    ("stored", "kept", "name"),
    [
        (["old-1"], {}, "old"),
        (["old-1", "old-2"], {}, "new"),
        (["old-1", "old-2"], {"old-2": "lacks"}, "old"),
        (["old-1", "old-2"], {"old-1": "lacks"}, "old"),
        (["old-1"], {"old-1": "differs"}, "new"),
        (["other-2"], {}, "new"),
        (["done-1", "done-2", "old-1"], {}, "old"),
    ],
)
def test_a_race_that_has_anything_left_is_resumed(
    monkeypatch: pytest.MonkeyPatch, stored: list[str], kept: dict[str, str], name: str
) -> None:
    stages = Stages(monkeypatch, 2, stored=stored, kept=kept)
    stages.race()
    assert stages.ran == [f"{name}-1", f"{name}-2"]


def test_errors_against_float64_are_measured_if_a_precision_is_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(racing, "suite_to_compare", lambda *_, float64, **__: asked.append(float64))
    monkeypatch.setattr(racing, "plan_step", lambda *_, **__: None)
    for allow in (None, "bf16"):
        racing._planned(replace(OPTIONS, allow=allow), Mock(), [OWN])
    assert asked == [False, True]
