"""What a shell is told by the process that waits for the one that works."""

import pytest

from tests.orchestrator.typed import python

LOST = 3
RAY_ENDED = "sweep: Ray on this machine ended, and so did this launch"
ENDS = {"raise ValueError('a bug of ours')": "ValueError: a bug of ours", "os._exit(1)": RAY_ENDED}


@pytest.mark.parametrize("end", ENDS)
def test_a_traceback_is_not_taken_for_the_end_of_ray(end: str) -> None:
    code = f"""
import os
from cudnn_sweep.orchestrator.cli.standing_by import stand_by
stand_by(lost={LOST})
{end}
"""
    done = python("-c", code)
    assert done.returncode == LOST
    assert ENDS[end] in done.stderr
    assert (RAY_ENDED in done.stderr) == (ENDS[end] == RAY_ENDED)
