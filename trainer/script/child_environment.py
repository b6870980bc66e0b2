"""The environment in which a script starts, and its run file. Pure; used by `trainer.script.running`."""

from collections.abc import Mapping, Sequence
from typing import Any

RUN_FILE = "HORA_RUN_FILE"  # names the run file: `hora.run` reads it
_KEPT = (
    "HORA_ATTEMPT", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS",
    "TF_CPP_MIN_LOG_LEVEL", "KERAS_HOME",
)  # fmt: skip
_KEPT_PREFIXES = ("HOROVOD_", "NCCL_", "GLOO_")


def child_environment(
    inherited: Mapping[str, str],
    *,
    env: Mapping[str, str],
    bin_dirs: Sequence[str],
    lib_dir: str,
    scratch: str,
    run_file: str,
    master: tuple[str, str],
) -> dict[str, str]:
    """The whole environment of a script. `master` is the address and the port where its ranks can meet.

    `env` are the variables of the spec, which names none that Hora must set (`jobs.model.script_fields`).
    """
    rank, size = inherited.get("HOROVOD_RANK", "0"), inherited.get("HOROVOD_SIZE", "1")
    local_rank, local_size = inherited.get("HOROVOD_LOCAL_RANK", "0"), inherited.get("HOROVOD_LOCAL_SIZE", "1")
    kept = {name: value for name, value in inherited.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}
    return {
        **kept,
        **env,
        "PATH": ":".join([*bin_dirs, inherited.get("PATH", "/usr/local/bin:/usr/bin:/bin")]),
        "PYTHONPATH": lib_dir,
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": scratch,
        "TMPDIR": scratch,
        "RANK": rank,
        "WORLD_SIZE": size,
        "LOCAL_RANK": local_rank,
        "LOCAL_WORLD_SIZE": local_size,
        "MASTER_ADDR": master[0],
        "MASTER_PORT": master[1],
        RUN_FILE: run_file,
    }


def run_values(
    launch: Mapping[str, Any], *, rank: int, size: int, local_rank: int, folders: Mapping[str, str | None]
) -> dict[str, Any]:
    """What `hora.run` knows of the job and its rank. `folders` are the paths of this rank."""
    script = launch["script"]
    return {
        "version": 1,
        "job_id": launch["job_id"],
        "attempt": launch["attempt"],
        "spec": launch["spec"],
        "plan": script["plan"],
        "rank": rank,
        "size": size,
        "local_rank": local_rank,
        "train": script.get("train"),
        "validation": script.get("validation"),
        **folders,
    }
