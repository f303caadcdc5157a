"""Errors of this folder. The command line prints them without a traceback.

ClusterError
├── LaunchFileError    mistake in a YAML file
└── LocalRayError      failure of the Ray on this machine
"""


class ClusterError(Exception):
    pass


class LaunchFileError(ClusterError):
    pass


class LocalRayError(ClusterError):
    pass
