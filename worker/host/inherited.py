"""Which variables of a worker's environment its ranks inherit, and the program that asks what they can use."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from jobs.runtime.processes import MARK

# The command line of a rank shows its whole environment to every user of the host, and Horovod does not quote
# the keys. So only these variables are passed on.
_NAMES = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TZ", "VIRTUAL_ENV", "PYTHONPATH", "KERAS_HOME")


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """Those of the variables that ranks inherit."""
    return {name: environment[name] for name in _NAMES if name in environment}


def rank_environment(
    environment: Mapping[str, str],
    *,
    mark: str,
    home: Path,
    scratch: Path,
    threads: int,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """The whole environment of the launcher and its ranks on all hosts. It contains no secrets.

    `environment` is that of this process, `variables` are those of `HORA_RANK_ENV`.
    """
    return {
        **variables,
        **inherited(environment),
        MARK: mark,
        "HORA_HOME": str(home),
        "HOME": str(home),
        "TMPDIR": str(scratch),  # removed at the end of the attempt
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": str(threads),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "CUDA_VISIBLE_DEVICES": "-1",  # each rank sets its own, from its host's launch file
    }
