"""What reads a text of mistakes.yaml where the program has no function that takes a file."""

from pathlib import Path

from cudnn_sweep.orchestrator.nightly.news import Webhook, find_webhook
from cudnn_sweep.orchestrator.planning.spec import WebhookKeys
from cudnn_sweep.orchestrator.showing.advice_text import Answered, advice_lines


def webhook(file: Path) -> Webhook:
    return find_webhook(WebhookKeys(url_file=str(file)), {})


def advice(file: Path) -> str:
    """Of a model that ended with the message in the second line at the sizes in the first."""
    sizes, message = file.read_text().splitlines()
    answered = Answered(
        sweep_id="one",
        workload="nets.py:Net",
        messages=[message, message, "another"],
        program="sweep",
        command="sweep advise nets.py:Net",
        where=[],
        input=sizes or None,
    )
    return " ".join(" ".join(advice_lines(answered)).split())
