"""The exit codes of every command; docs/exit-codes.md explains them to users."""

from enum import IntEnum


class ExitCode(IntEnum):
    FINE = 0
    WORSE = 1
    """A step is slower, a regression is confirmed, or what was checked does not hold."""
    USAGE = 2
    """The command is mistyped, or names something that does not exist."""
    CANNOT_TELL = 3
    """The measurement decides nothing yet."""
    DOES_NOT_RUN = 4
    """The user's model fails. In a gate, it fails at HEAD."""
    NEEDS_GPU = 5
    UNFINISHED = 6
    """A process was killed, a disk is full, the device is busy, or this program has a bug. The same command resumes."""
    INTERRUPTED = 130
    TERMINATED = 143
