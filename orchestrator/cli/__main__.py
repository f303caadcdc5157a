"""`python -m cudnn_sweep.orchestrator.cli` is `sweep`."""

from cudnn_sweep.orchestrator.cli import app

app(prog_name="sweep")
