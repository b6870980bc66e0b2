"""Which variables of a worker's environment its ranks inherit, and the program that asks what they can use."""

from collections.abc import Mapping

# The command line of a rank shows its whole environment to every user of the host, and Horovod does not quote
# the keys. So only these variables are passed on.
_NAMES = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TZ", "VIRTUAL_ENV", "PYTHONPATH", "KERAS_HOME")


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """Those of the variables that ranks inherit."""
    return {name: environment[name] for name in _NAMES if name in environment}
