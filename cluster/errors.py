"""What can go wrong here and is not a mistake of ours.

ClusterError
├── LaunchFileError    a file, its line and key, what was found there, what is allowed
└── LocalRayError      Ray on this machine does not start, or one runs in this process already
"""


class ClusterError(Exception):
    """Shown by the command line without a traceback."""


class LaunchFileError(ClusterError):
    pass


class LocalRayError(ClusterError):
    pass
