"""What reads a text of mistakes.yaml where the program has no function that takes a file."""

from pathlib import Path

from cudnn_sweep.analysis.answers.text import to_text
from cudnn_sweep.orchestrator.nightly.news import Webhook, find_webhook
from cudnn_sweep.orchestrator.planning.spec import WebhookKeys
from cudnn_sweep.orchestrator.steps.advice_text import Answered, answer_of
from cudnn_sweep.orchestrator.steps.step_options import AdviseOptions


def webhook(file: Path) -> Webhook:
    return find_webhook(WebhookKeys(url_file=str(file)), {})


def advice(file: Path) -> str:
    """Of a model whose trial at the sizes of the first line ended with the status of the second and the message of the
    others."""
    sizes, status, message = file.read_text().split("\n", 2)
    answered = Answered(
        options=AdviseOptions(
            workload="nets.py:Net", input=(sizes,) if sizes else (), program="sweep"
        ),
        sweep_id="one",
        failures=[(status, message), (status, message), ("error", "another")],
    )
    return " ".join(to_text(answer_of(answered)).split())
