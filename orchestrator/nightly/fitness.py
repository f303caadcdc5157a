"""Can tonight be measured at all? The doctor's quick checks."""

from cudnn_sweep.orchestrator.doctor.storage_checks import check_storage
from cudnn_sweep.orchestrator.nightly.asked import AskedNight


def why_unfit(asked: AskedNight) -> tuple[str, ...]:
    """What keeps it from being measured, a line each; nothing where all is well.

    Of a cluster the results alone: its nodes are looked at by the sweep itself.
    """
    executor, results = asked.executor, asked.results
    checks = list(executor.checks(results) if executor else check_storage(results))
    reasons = [
        f"{check.name}: {check.found}; {check.advice}"
        for check in checks
        if check.state == "problem"
    ]
    cuda = next((check for check in checks if check.name == "CUDA"), None)
    if asked.suite.needs_cuda and cuda is not None and cuda.state == "warning":
        reasons.append(f"CUDA: {cuda.found}; {cuda.advice}")
    return tuple(reasons)
