"""The launch file: what the supervisor tells the ranks of a host. What they tell it are records (`jobs.model.records`).

Written by the worker, read by the trainer. Pure pydantic, no I/O. Paths are absolute, and those of the host.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from jobs.model.plan import Plan
from jobs.model.spec import Spec


class Expected(BaseModel):
    """The figures that validation found in a registered dataset. Ranks that find others do not train."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str  # NAME@VERSION
    samples: int  # of the training data, before the validation split
    test: int
    classes: int
    targets: int = 0  # numbers that a sample has to learn


class ScriptPackages(BaseModel):
    """The packages that a host installs for a script, unless an earlier job had the same."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    requirements: list[str] = []
    file: str | None = None  # a file with further ones, one on a line
    base: str  # the Python of the environment on top of which they come
    alone: bool = False  # nothing of that environment but its Python
    folder: str  # of all installed sets of the host
    timeout_s: float
    most_bytes: int  # of this set


class ScriptLaunch(BaseModel):
    """The part of a launch file that is about a script: what each rank of the host starts, and what it may use.

    Paths are absolute, and those of this host. The script may write below `writable` alone.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: list[str]  # placeholders are filled in
    plan: Plan
    knows_batch: bool = True  # whether the script uses the batch of the plan
    code_dir: str  # the unpacked archive, where the command starts; this attempt's own copy
    lib_dir: str  # a folder for PYTHONPATH, in which `hora.run` lies
    bin_dir: str | None = None  # of the environment, first on PATH; null: the worker's own
    packages: ScriptPackages | None = None  # then their environment is first on PATH
    env: dict[str, str] = {}
    train: str | None = None  # the path or URL of the dataset's training part
    validation: str | None = None
    readable: list[str] = []  # what the script may read beside the system, its environment and its own folders
    writable: list[str] = []  # likewise; each rank has a folder of its own beside
    home: str  # of the worker
    scratch: str  # its TMPDIR and HOME, gone after the attempt; one folder a rank
    shared_memory: str  # the folder in memory that it sees as /dev/shm, gone after the attempt
    store_secret: str  # what the ranks tell each other stands below it, where scripts do not find it
    user: str | None = None  # runs the script; null: the user of the worker
    memory_bytes: int | None = None  # of all processes of one rank together
    storage_bytes: int | None = None  # of all that the script writes on this host


class Launch(BaseModel):
    """The launch file: the input of the ranks on a host, as JSON. Their only argument is the folder that contains it.

    Paths are absolute. The ranks exit when `stop_path` exists.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    job_id: str
    attempt: int
    spec: Spec
    expected: Expected | None = None  # of data that is registered
    gpus: int
    device: Literal["gpu", "cpu"]
    threads_per_rank: int
    gpu_uuids: list[str] = []  # of this host, by local rank
    data_roots: list[str]  # folders and URLs below which datasets and weights may be read
    cache_dir: str  # raw files of `cache: disk`, shared by all jobs of this host
    weights_dir: str  # the folder with ImageNet weights
    job_weights: str | None = None  # the file that `weights: job:ID` means
    models: list[str] = []  # `module:function` of networks that the operator allows
    records_dir: str  # rank N appends to records_dir/rank-N.jsonl
    logs_dir: str  # rank N writes stdout and stderr to logs_dir/rank-N.log
    storage_limit_bytes: int | None = None  # of the job's folder on the lead host
    checkpoints_dir: str  # one folder an attempt, `attempt-N`
    artifacts_dir: str
    stop_path: str
    space_wait_s: float = 300.0  # for the results, if there is no space for them
    script: ScriptLaunch | None = None  # null: the ranks train in Hora's own loop
    lease_path: str | None = None  # says until when the ranks of this host may run, in seconds of its CLOCK_MONOTONIC


def launch_file_name(host: str = "localhost") -> str:
    """Name of the launch file for the ranks on a host. `host` is the name that horovodrun uses."""
    return f"{host}.json"
