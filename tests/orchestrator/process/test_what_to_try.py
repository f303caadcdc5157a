"""What a failure of a model suggests: from where it was raised."""

from pathlib import Path
from typing import Any

import pytest

from cudnn_sweep.orchestrator.planning.plan import first_calls
from cudnn_sweep.orchestrator.process.client import ForkServer, call_models
from cudnn_sweep.orchestrator.steps.typed_inputs import read_inputs
from cudnn_sweep.workloads.errors import TRY
from tests.makers import MakePlan
from tests.workloads.made_up_failures import FAILURES, NETS


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("nets") / "nets.py"
    file.write_text(NETS)
    return file


@pytest.mark.parametrize(("name", "sizes", "model", "wanted"), FAILURES)
def test_what_to_try_follows_from_where_a_model_failed(
    server: ForkServer,
    plan_of: MakePlan,
    file: Path,
    name: str,
    sizes: str,
    model: dict[str, Any],
    wanted: str,
) -> None:
    plan = plan_of(f"{file}:{name}", input=sizes, model={"arguments": model})
    with pytest.raises(Exception, match=f"{name} at input {sizes}: ") as failed:
        list(call_models(server, first_calls(plan)))
    _, _, found = str(failed.value).partition(TRY)
    assert found == wanted
    if found.startswith("--inputs"):
        assert read_inputs(found.split("'")[1])
