"""Errors of this folder that are no mistakes of ours.

ClusterError
├── LaunchFileError    a file, its line and key, what was found there, what is allowed
└── LocalRayError      Ray on this machine does not start, or this process has joined a Ray already
"""


class ClusterError(Exception):
    """Error that is shown without a traceback."""


class LaunchFileError(ClusterError):
    pass


class LocalRayError(ClusterError):
    pass
