"""The Python whose software counts as good, before it is needed: that may be weeks after it was named."""

import shutil

from cudnn_sweep.cluster.launch_file import LaunchFile
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.spec import SweepSpec


def check_last_good(file: LaunchFile[SweepSpec]) -> None:
    """Raises SpecError where it cannot be started here. On a cluster it is the nodes'."""
    python = file.sweep.nightly.last_good
    if python is None or file.where != "this_machine" or shutil.which(python):
        return
    raise SpecError(
        f"metadata.sweep.nightly.last_good: found no program {python}; allowed: the Python of a "
        "virtual environment, as /opt/good/bin/python"
    )
