"""An audit of a script in the folder of a test."""

from pathlib import Path

from ruamel.yaml import YAML

from cudnn_sweep.orchestrator.auditing.audit import Audited, audit_script
from cudnn_sweep.orchestrator.planning.options import AuditRequest
from cudnn_sweep.workloads.auditing.findings import Findings

SCRIPTS: dict[str, str] = YAML(typ="safe", pure=True).load(
    (Path(__file__).parent / "scripts.yaml").read_text()
)


def audit(
    text: str | None = None,
    *arguments: str,
    script: str = "script.py",
    is_module: bool = False,
    seconds: float | None = None,
    steps: int | None = None,
) -> Audited:
    """Of a script of this text, or of one that is there."""
    if text is not None:
        Path(script).write_text(text)
    return audit_script(
        AuditRequest(
            script=script, is_module=is_module, arguments=arguments, seconds=seconds, steps=steps
        )
    )


def findings_of(audited: Audited) -> Findings:
    assert audited.findings is not None
    assert audited.findings.own_errors == ()
    return audited.findings


# Batch, layout, type, deterministic and TF32 of each convolution that the script `states` tells apart.
CONVOLUTIONS_OF_STATES = [
    (2, "contiguous", "float32", False, True),
    (2, "channels_last", "float32", False, True),
    (3, "contiguous", "bfloat16", False, True),
    (2, "contiguous", "float32", True, True),
    (1, "contiguous", "float32", True, True),
    (2, "contiguous", "float32", False, False),
    (9, "contiguous", "float32", False, False),
]
