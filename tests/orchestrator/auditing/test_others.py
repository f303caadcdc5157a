"""Processes that a script starts, of which an audit sees nothing."""

import pytest

from cudnn_sweep.orchestrator.auditing.audit import Audited, AuditRequest
from tests.orchestrator.auditing.audited import SCRIPTS, audit, findings_of


@pytest.mark.usefixtures("here")
def test_loaders_workers_and_processes_without_torch_are_none_of_them() -> None:
    audited = audit(SCRIPTS["quiet processes"])
    assert findings_of(audited).calls == 1
    assert (audited.others, audited.unseen) == (0, None)


def unseen(script: str, *arguments: str) -> str:
    request = AuditRequest(
        script=script, is_module=True, arguments=arguments, seconds=None, steps=None
    )
    audited = Audited(request=request, ended="itself", exit_code=0, findings=None, others=2)
    return str(audited.unseen).partition("Audit each: ")[2]


@pytest.mark.parametrize(
    ("script", "arguments", "command"),
    [
        (
            "torch.distributed.run",
            ("--nproc_per_node=2", "ddp.py", "--lr", "0.1"),
            "`torchrun --nproc_per_node=2 --no-python sweep audit ddp.py --lr 0.1`.",
        ),
        (
            "/venv/bin/torchrun",
            ("--nproc-per-node", "2", "my ddp.py"),
            "`torchrun --nproc-per-node 2 --no-python sweep audit 'my ddp.py'`.",
        ),
        (
            "accelerate.commands.launch",
            ("--num_processes", "1", "train.py"),
            "`accelerate launch --num_processes 1 --no_python sweep audit train.py`.",
        ),
        (
            "my.training",
            ("of.py",),
            "`torchrun --nproc-per-node 2 --no-python sweep audit FILE.py`, with what one of them runs in FILE.py.",
        ),
    ],
)
def test_command_audits_each_process(
    monkeypatch: pytest.MonkeyPatch, script: str, arguments: tuple[str, ...], command: str
) -> None:
    monkeypatch.setattr("cudnn_sweep.orchestrator.auditing.audit.program", lambda: "sweep")
    assert unseen(script, *arguments) == command
