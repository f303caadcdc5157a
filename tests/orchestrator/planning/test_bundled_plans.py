"""The cells and trials of bundled suites, which sweeps of older versions resume."""

from tests.goldens import kept
from tests.goldens.collect import plans

LARGE = (
    "claims",
    "deepbench",
    "field",
    "full",
    "layers",
    "models",
    "once",
)  # the goldens compare these, too


def test_bundled_suites_have_the_cells_and_trials_that_are_kept() -> None:
    assert kept.differences("plans.json.xz", plans(("cuda",), LARGE)) == [], "see make goldens"
