"""Exit codes of all commands. See docs/exit-codes.md."""

from enum import IntEnum


class ExitCode(IntEnum):
    FINE = 0
    WORSE = 1
    """A step is slower, a regression is confirmed, or a check failed."""
    USAGE = 2
    """The command has a mistake, or refers to something that does not exist."""
    CANNOT_TELL = 3
    """The measurement has not decided anything."""
    DOES_NOT_RUN = 4
    """The user's model fails. In a gate, it fails at HEAD."""
    NEEDS_GPU = 5
    UNFINISHED = 6
    """The command could not finish, for example because a disk is full or the device is busy."""
    INTERRUPTED = 130
    TERMINATED = 143
