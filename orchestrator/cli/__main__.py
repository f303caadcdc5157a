"""Runs `sweep` as `python -m cudnn_sweep.orchestrator.cli`."""

from cudnn_sweep.orchestrator.cli import app

app(prog_name="sweep")
