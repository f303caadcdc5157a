"""Can tonight be measured at all? The doctor's quick checks."""

from cudnn_sweep.orchestrator.nightly.request import NightRequest


def why_unfit(asked: NightRequest) -> tuple[str, ...]:
    """What keeps it from being measured, a line each; nothing where all is well."""
    checks = list(asked.place.checks(asked.results))
    reasons = [
        f"{check.name}: {check.found}; {check.advice}"
        for check in checks
        if check.state == "problem"
    ]
    cuda = next((check for check in checks if check.name == "CUDA"), None)
    if asked.suite.needs_cuda and cuda is not None and cuda.state == "warning":
        reasons.append(f"CUDA: {cuda.found}; {cuda.advice}")
    return tuple(reasons)
