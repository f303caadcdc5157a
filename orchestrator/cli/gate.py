"""`sweep gate` and `sweep bisect`."""

from cudnn_sweep.orchestrator.cli.advise import run_here
from cudnn_sweep.orchestrator.cli.standing_by import UNFINISHED, stand_by
from cudnn_sweep.orchestrator.launching.step_options import BisectOptions, GateOptions


def gate(options: GateOptions) -> None:
    """Does one change make a step of your model slower? Two commits in turns, until it is decided.

    BASE and HEAD are commits of your repository, folders, wheels, or Pythons of two environments with cudnn-sweep.
    Each process runs one side, both in turns on one GPU (or CPU), with pairs of base and base as control. The
    answer says what else differs, and how large a slowdown this gate would have found.

    Exit codes: 0 not slower than the threshold, or faster; 1 slower, or HEAD does not run; 2 cannot tell yet, or a
    mistake in what was typed.
    """
    stand_by(lost=UNFINISHED)
    from cudnn_sweep.orchestrator.gating.gate import gate as measure_and_tell

    run_here(measure_and_tell, options, is_apart=True)


def bisect(options: BisectOptions) -> None:
    """Find which of several environments made a step slower, such as one of four versions of torch.

    Each of --pythons is an environment with cudnn-sweep. The newest is compared with the oldest in turns, until that
    is decided. If it is slower, the middle one of those that are left follows, until the first slow one is known. The
    answer names it, and what changed there. The same command resumes: pairs that are decided in the results are not
    measured again.

    Exit codes: 0 the newest is not slower; 1 one is named; 2 cannot tell yet, or a mistake in what was typed.
    """
    stand_by(lost=UNFINISHED)
    from cudnn_sweep.orchestrator.gating.bisect import bisect as measure_and_tell

    run_here(measure_and_tell, options, is_apart=True)
