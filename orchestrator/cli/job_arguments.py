"""What commands that advise ask about a job."""

from enum import StrEnum


class Start(StrEnum):
    """Where the job starts: in a new container, or on a machine that has compiled before."""

    CONTAINER = "container"
    WARM = "warm"
