"""What FILE of `sweep launch` stands for: a launch file, a suite, or, where none is there, this machine."""

from dataclasses import dataclass
from pathlib import Path

from cudnn_sweep.cluster.strict.document import read_document
from cudnn_sweep.cluster.strict.strict_yaml import check_part
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.spec import DEFAULT_RESULTS, SweepSpec

LAUNCH_FILE = Path("cluster.yaml")  # in the current folder, where no file is named


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedFile:
    file: Path | None
    """None: there is no launch file."""
    suite: str | None
    note: str | None
    """What was taken without being named, in words for the user."""


def asked_file(typed: Path | None, suite: str | None, results: str | None) -> AskedFile:
    """Raises SpecError for two suites or a Python file, LaunchFileError for a file that is no YAML."""
    if typed is not None and typed.suffix == ".py":
        raise SpecError(
            f"{typed} is Python; allowed: a launch file or a suite, both YAML. For a network in it: "
            f"sweep try {typed}:NAME --input SIZES"
        )
    if typed is not None and not _is_suite(typed):
        return AskedFile(file=typed, suite=suite, note=None)
    if typed is not None and suite is not None:
        raise SpecError(f"{typed} is a suite, and so is --suite {suite}: name one of them")
    chosen = suite if typed is None else str(typed)
    if LAUNCH_FILE.exists():
        note = f"{typed} is a suite; {LAUNCH_FILE} says where it runs." if typed else None
        return AskedFile(file=LAUNCH_FILE, suite=chosen, note=note)
    place = f"./{DEFAULT_RESULTS}" if results is None else results
    note = f"No {LAUNCH_FILE} here: the sweep runs on this machine, and its results go to {place}."
    return AskedFile(file=None, suite=chosen, note=note)


def results_of_the_launch_file() -> str:
    """The results location of the launch file that `sweep launch` takes where none is named."""
    if not LAUNCH_FILE.exists():
        return DEFAULT_RESULTS
    return check_part(read_document(LAUNCH_FILE), SweepSpec, ("metadata", "sweep")).results


def _is_suite(file: Path) -> bool:
    if not file.is_file():
        return False
    keys = read_document(file).values
    return ("cells",) in keys and ("metadata",) not in keys
