"""Each folder's errors.py draws its errors; what is drawn is what there is."""

from types import ModuleType

import pytest

from cudnn_sweep.analysis import errors as analysis_errors
from cudnn_sweep.cluster import errors as cluster_errors
from cudnn_sweep.orchestrator import errors as orchestrator_errors
from cudnn_sweep.workloads import errors as workloads_errors

FOLDERS = (analysis_errors, cluster_errors, orchestrator_errors, workloads_errors)
BRANCH, DEEPER = ("├── ", "└── "), ("│   ", "    ")


@pytest.mark.parametrize("errors", FOLDERS, ids=lambda errors: errors.__name__)
def test_drawing_shows_every_error_below_the_one_it_is_a_kind_of(errors: ModuleType) -> None:
    defined = [each for each in vars(errors).values() if isinstance(each, type)]
    (root,) = (each for each in defined if each.__base__ is Exception)
    assert _drawn(errors.__doc__ or "", root.__name__) == {
        each.__name__: each.__bases__[0].__name__ for each in defined if each is not root
    }


def _drawn(docstring: str, root: str) -> dict[str, str]:
    """Each error that is drawn below `root`, with the one it hangs on."""
    above = {0: root}
    drawn = {}
    for line in docstring.splitlines():
        depth = 0
        while line.startswith(DEEPER):
            line, depth = line[4:], depth + 1
        if line.startswith(BRANCH):
            name, meaning = line[4:].split(maxsplit=1)
            assert meaning, f"{name} lacks its meaning"
            drawn[name] = above[depth]
            above[depth + 1] = name
    return drawn
