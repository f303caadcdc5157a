"""Pins the night from which on a launch file's nights are compared."""

from datetime import date

from cudnn_sweep.analysis.storing.store import open_store
from cudnn_sweep.cluster.launch_file import read_launch_file
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.nightly.diary import Diary
from cudnn_sweep.orchestrator.nightly.options import NightOptions
from cudnn_sweep.orchestrator.planning.night_name import NightName, is_night_of, launch_name
from cudnn_sweep.orchestrator.planning.spec import SweepSpec


def pin_baseline(options: NightOptions, first: date | None) -> str:
    """In words what is pinned now; None unpins. Raises SpecError where there is no such night."""
    file = read_launch_file(options.file, SweepSpec)
    launch = launch_name(file)
    diary = Diary(store=open_store(options.results or file.sweep.results), launch=launch)
    if first is None:
        diary.unpin()
        return f"Nights of {launch} are compared with the month before them."
    name = NightName(date=first, launch=launch)
    nights = [each for each in diary.store.sweep_ids() if is_night_of(each, launch)]
    if name.sweep_id not in nights:
        found = ", ".join(nights[-5:]) or "none"
        raise SpecError(f"--pin {first}: there is no {name.sweep_id}; the last nights: {found}")
    diary.pin(first)
    return f"Nights of {launch} are compared with the month from {first} on."
