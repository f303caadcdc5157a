"""What a user is to try after a model has failed in this process."""

from pathlib import Path
from typing import Any

import pytest

from cudnn_sweep.workloads.errors import TRY
from cudnn_sweep.workloads.models.inputs import what_to_try
from cudnn_sweep.workloads.problem import parse_sizes
from tests.workloads.made_up_failures import FAILURES, NETS
from tests.workloads.made_up_models import build, context


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The line that raised an error is read from there."""
    file = tmp_path_factory.mktemp("nets") / "failing_nets.py"
    file.write_text(NETS)
    return file


@pytest.mark.parametrize(("name", "sizes", "model", "wanted"), FAILURES)
def test_what_to_try_follows_from_the_frames_of_the_error(
    file: Path, name: str, sizes: str, model: dict[str, Any], wanted: str
) -> None:
    shape = parse_sizes(sizes)
    with pytest.raises(Exception) as failed:  # each its own
        step = build(f"{file}:{name}", context(arguments=model))
        step.run(step.prepare(shape))
    assert what_to_try(failed.value, shape).removeprefix(TRY) == wanted
