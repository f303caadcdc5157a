"""What a launch says at its end, for programs: `sweep launch --json`."""

import json
from dataclasses import asdict

from cudnn_sweep.analysis.answering.verdicts import BreakEven, Verdict
from cudnn_sweep.analysis.asking.json_value import json_value
from cudnn_sweep.orchestrator.showing.summary import Summary


def to_json(summary: Summary, results: str, exit_code: int) -> str:
    """One object. Verdicts and break-evens have the columns of `helps_or_hurts` and `break_even`, and their cell's
    name. `results` is the location as it was typed.
    """

    def named(row: Verdict | BreakEven) -> dict[str, object]:
        return {"cell": summary.cells[row.cell_id], **asdict(row)}

    found = {
        "sweep_id": summary.sweep_id,
        "results": results,
        "exit_code": exit_code,
        "is_complete": summary.is_complete,
        "trials_planned": summary.plan_trials,
        "trials_recorded": sum(summary.statuses.values()),
        "trials_not_run": summary.not_run,
        "statuses": dict(summary.statuses),
        "warnings": dict(summary.warnings),
        "slow_gpus": list(summary.slow_gpus),
        "failures": [asdict(each) for each in summary.progress.failures],
        "verdicts": [named(each) for each in summary.verdicts],
        "break_evens": [named(each) for each in summary.break_evens],
    }
    return json.dumps(json_value(found), indent=1, ensure_ascii=False)
