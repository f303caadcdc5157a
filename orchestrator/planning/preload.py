"""Which modules the fork server imports once, so that no trial waits for them."""

from collections.abc import Iterable
from importlib.util import find_spec

from cudnn_sweep.workloads.cells.suite import SuiteSpec


def modules_to_preload(suite: SuiteSpec, own: Iterable[str]) -> tuple[str, ...]:
    """The suite's modules that are installed, then the user's own."""
    return tuple(dict.fromkeys([*filter(is_installed, suite.preload), *own]))


def is_installed(module: str) -> bool:
    try:
        return find_spec(module.partition(".")[0]) is not None
    except ValueError:  # no name of a module, or __main__
        return False
