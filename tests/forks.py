"""What a process of its own returns: what it changes in torch or in the process ends with it.

It is a fork of a server that has only imported torch: a fork of the tests' process may hang, as it has
none of the threads of that process.
"""

import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeVar

from ray import cloudpickle

from tests.conftest import ROOT

T = TypeVar("T")
LIMIT_S = 120
sys.path.append(str(ROOT))  # the process imports the tests from there
SERVER = get_context("forkserver")
SERVER.set_forkserver_preload(["torch._dynamo", "cudnn_sweep.workloads.measuring.trial"])


def in_a_fork(do: Callable[[], T]) -> T:
    """Return what `do` returns there, which can be pickled. Raises the error that `do` raises."""
    with ProcessPoolExecutor(1, mp_context=SERVER) as processes:
        found: T = processes.submit(_called, cloudpickle.dumps(do)).result(timeout=LIMIT_S)
        return found


def _called(pickled: bytes) -> Any:
    import torch

    torch.set_num_threads(1)
    return cloudpickle.loads(pickled)()
