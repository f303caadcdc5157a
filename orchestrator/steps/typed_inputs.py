"""Parses the options `--input` and `--inputs`."""

from collections.abc import Sequence

import typer

from cudnn_sweep.cluster.strict_yaml import read_strict_text
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.workloads.cells.suite import ModelSpec
from cudnn_sweep.workloads.models.inputs import Inputs
from cudnn_sweep.workloads.problem import Shape, none_empty, parse_sizes


def one_input(texts: Sequence[str]) -> Shape | None:
    """Parse `--input`. Raises SpecError if it is invalid, BadParameter if it is repeated."""
    try:
        shapes = [none_empty(parse_sizes(text)) for text in texts]
    except ValueError as error:
        raise SpecError(f"--input: {error}") from None
    if len(shapes) > 1:
        tensors = ", ".join(f"{{shape: {list(shape)}}}" for shape in shapes)
        raise typer.BadParameter(
            f"found {len(shapes)}, allowed: one. For several tensors, use --inputs '[{tensors}]'",
            param_hint="--input",
        )
    return shapes[0] if shapes else None


def read_inputs(text: str | None) -> Inputs | None:
    """Parse `--inputs`. Raises LaunchFileError if it is invalid."""
    if text is None:
        return None
    return read_strict_text(f"inputs: {text}", "--inputs", ModelSpec).inputs
