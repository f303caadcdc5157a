"""What reads a text of mistakes.yaml where the program has no function that takes a file."""

from pathlib import Path

from cudnn_sweep.orchestrator.nightly.news import Webhook, find_webhook
from cudnn_sweep.orchestrator.planning.spec import WebhookKeys
from cudnn_sweep.orchestrator.terminal.advice_text import Answered, advice_lines


def webhook(file: Path) -> Webhook:
    return find_webhook(WebhookKeys(url_file=str(file)), {})


def advice(file: Path) -> str:
    """Of a model whose trial at the sizes of the first line ended with the status of the second and the message of the
    others."""
    sizes, status, message = file.read_text().split("\n", 2)
    answered = Answered(
        sweep_id="one",
        workload="nets.py:Net",
        failures=[(status, message), (status, message), ("error", "another")],
        program="sweep",
        command="sweep advise nets.py:Net",
        where=[],
        input=sizes or None,
    )
    return " ".join(" ".join(advice_lines(answered)).split())
