"""Processes that a script starts, of which an audit sees nothing."""

import pytest

from cudnn_sweep.orchestrator.auditing.audit import Audited
from cudnn_sweep.orchestrator.planning.options import AuditRequest
from tests.orchestrator.auditing.audited import SCRIPTS, audit, findings_of


@pytest.mark.long
@pytest.mark.usefixtures("here")
def test_loaders_workers_and_processes_without_torch_are_none_of_them() -> None:
    audited = audit(SCRIPTS["quiet processes"])
    assert findings_of(audited).calls == 1
    assert (audited.others, audited.unseen) == (0, None)


@pytest.mark.parametrize(
    ("is_module", "arguments", "of_rank"),
    [
        (True, ("--nproc_per_node=2", "my ddp.py", "--lr", "0.1"), "'my ddp.py' --lr 0.1"),
        (True, ("--epochs", "2"), "RANK.py"),
        (False, ("of.py",), "RANK.py"),
    ],
)
def test_command_audits_each_rank(
    monkeypatch: pytest.MonkeyPatch, is_module: bool, arguments: tuple[str, ...], of_rank: str
) -> None:
    monkeypatch.setattr("cudnn_sweep.orchestrator.auditing.audit.program", lambda: "sweep")
    request = AuditRequest(
        script="torch.distributed.run",
        is_module=is_module,
        arguments=arguments,
        seconds=None,
        steps=None,
    )
    audited = Audited(request=request, ended="itself", exit_code=0, findings=None, others=2)
    assert audited.unseen == (
        "The script started processes with torch (2). The audit did not see them or the flags that "
        "they set. Audit what each of them runs: "
        f"`torchrun --nproc-per-node 2 --no-python sweep audit {of_rank}`."
    )
