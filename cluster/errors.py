"""Errors of this folder; the command line prints them without a traceback.

ClusterError
├── LaunchFileError    a file, its line and key, what was found there, what is allowed
└── LocalRayError      Ray on this machine does not start, or this process has joined a Ray already
"""


class ClusterError(Exception):
    pass


class LaunchFileError(ClusterError):
    pass


class LocalRayError(ClusterError):
    pass
