"""Settings of a process: read once from the environment (`HORA_*`), frozen after that.

Every part reads the same names, so a stack is configured in one place. Durations are seconds.
"""

import json
import os
import re
import shlex
import socket
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from jobs.runtime import settings_texts as texts
from jobs.runtime.default_home import default_home
from jobs.runtime.mail_addresses import MailRules, mail_domains_from, smtp_server_from
from jobs.runtime.outbound_addresses import Allowed, allowed_from
from jobs.runtime.prices import Prices, prices_from
from jobs.runtime.rank_variables import rank_variables
from jobs.suggestions import similar_to
from jobs.wording import in_words

# Between two roots, and not the colon of s3:// or of a port.
_BETWEEN_ROOTS = re.compile(r":(?!//|[0-9])")
_PREFIX = "HORA_"
_POOL, _PARTITION = "slurm:", r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"  # as in `jobs.model.pools`
_SLURM_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
_PARTITION_NAME, _HOST_NAME = f"^{_PARTITION}$", rf"^({_POOL})?[A-Za-z0-9][A-Za-z0-9._-]*$"
_WORDS = {
    _PARTITION_NAME: "must be the name of a partition: letters, digits and ._- only, and begin with a letter or digit",
    _HOST_NAME: "must be the name of a host: letters, digits and ._- only, and begin with a letter or digit",
}

# Within these a timestamp, a limit of the kernel and a socket's timeout can hold the number.
_YEAR_S = 365 * 86_400
_Seconds = Annotated[float, Field(gt=0, le=_YEAR_S)]
_Days = Annotated[float, Field(gt=0, le=36_500)]  # a century: for ever
_GB = 1e9
_Gigabytes = Annotated[float, Field(gt=0, le=1e6)]


class Settings(BaseSettings):
    """One stack's settings. A field `x_y` is read from `HORA_X_Y`.

    The descriptions are Markdown whose links lead from docs/; the table in docs/operations.md is made from them.
    """

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX, frozen=True, extra="ignore", env_ignore_empty=True, allow_inf_nan=False
    )

    home: Path = Field(
        default_factory=default_home,
        description="The state of a host: checkpoints and logs of jobs, and the embedded database. By default"
        " `~/.local/share/hora`, for root `/var/lib/hora`.",
    )
    database_url: str = Field(
        "postgresql://hora@localhost/hora",
        description="The PostgreSQL database. It may name several servers; see"
        " [a database with a standby](#a-database-with-a-standby).",
    )
    broker_url: Annotated[str, AfterValidator(texts.guarded_broker)] = Field(
        "redis://localhost:6379/0", description="The broker. A broker that is not on loopback must have a password."
    )
    token: str | None = Field(
        None,
        description="The api accepts it as an admin token; the command line sends it. By default the command line"
        " sends what is in `$HORA_HOME/token`.",
    )
    data_roots: str = Field(
        "",
        description="Folders and URLs, separated by colons. Jobs may read datasets and weights below these"
        " [data roots](data.md#data-roots). For workers and api.",
    )
    models: Annotated[str, AfterValidator(texts.external_models)] = Field(
        "",
        description="Functions of installed packages that build [networks](models.md#a-network-of-your-own) which jobs"
        " may train: `module:function`, separated by commas. For workers and api.",
    )
    code: Literal["on", "off"] = Field(
        "off",
        description="`on`: jobs may run [code that people send](scripts.md#who-may-run-code). `hora up` sets it unless"
        " you do. For workers and api.",
    )
    code_user: str | None = Field(
        None,
        pattern=r"^[a-z_][a-z0-9_-]*$",
        max_length=32,
        description="The user of the host that [scripts run as](scripts.md#protection). The worker needs the right to"
        " change to it. Without it scripts run as the worker's user, or as `nobody` if that is root. For workers.",
    )
    environments: Annotated[str, AfterValidator(texts.environments)] = Field(
        "",
        max_length=16_384,
        description="[Python environments](scripts.md#environments) for scripts, as `NAME=PATH` separated by commas:"
        " `torch=/opt/envs/torch`. For workers and api.",
    )
    code_requirements: Literal["on", "off"] = Field(
        "off",
        description="`on`: a spec may name [packages](scripts.md#requirements) that workers install for its script."
        " For workers and api.",
    )
    requirements_timeout_s: _Seconds = Field(900.0, description="Time limit for installing the packages of a script.")
    max_requirements_gb: _Gigabytes = Field(
        10.0, description="The most that the installed packages of one script may take on a host."
    )
    keep_requirements_gb: _Gigabytes = Field(
        50.0,
        description="What all installed packages of scripts may take on a host. Beyond it those that were not used for"
        " the longest time are removed.",
    )
    max_code_mb: float = Field(
        64.0, gt=0, le=1024, description="The largest archive of code, in units of 10^6 bytes. For the api."
    )
    max_code_storage_gb: _Gigabytes = Field(
        20.0,
        description="What a script may write on a host, its checkpoints and artifacts included."
        " `HORA_MAX_JOB_STORAGE_GB` counts too, if it is less. For workers.",
    )
    max_code_memory_gb: _Gigabytes | None = Field(
        None,
        description="Memory that a script's processes of one rank may use together. By default 90 % of the host's"
        " memory, divided by its slots. For workers.",
    )
    max_import_mb: float = Field(
        256.0,
        gt=0,
        le=4096,
        description="The largest [run that may be imported](slurm.md#importing-a-run), in units of 10^6 bytes. For the"
        " api.",
    )
    keep_code_days: _Days = Field(
        30.0, description="From its last use until an archive of code that no job names is removed."
    )
    datasets_dir: Path | None = Field(
        None,
        description="Uploaded archives and the [datasets](datasets.md) made from them. Without a"
        " [store](store.md#uploaded-datasets) the api and all workers must see the same folder there, and be able to"
        " write to it. By default `$HORA_HOME/datasets`.",
    )
    store: Annotated[str, AfterValidator(texts.store_url)] | None = Field(
        None,
        max_length=1024,
        description="Where [copies of what jobs leave, and uploaded datasets](store.md), outlive hosts: `s3://BUCKET/PREFIX`,"
        " `gs://BUCKET/PREFIX`, `abfs://CONTAINER/PREFIX` or `file:///FOLDER`. By default there is none. For workers"
        " and api.",
    )
    store_options: Annotated[str, AfterValidator(texts.store_options)] = Field(
        "{}",
        max_length=16_384,
        repr=False,
        description="A JSON object for the [driver of the store](store.md#credentials), such as an endpoint and"
        " credentials. It may be secret: no rank gets it. For workers and api.",
    )
    device: Literal["auto", "gpu", "cpu"] = Field(
        "auto",
        description="Which [slots](operations.md#gpu-hosts) a host offers. `auto`: its GPUs, or CPU slots if TensorFlow"
        " can use none. `gpu`: no CPU slots in their place. `cpu`: CPU slots only.",
    )
    slots: int | None = Field(
        None,
        ge=0,
        le=4096,
        description="CPU slots of a host. By default as many as it has cores, and none beside GPUs. A number counts"
        " beside GPUs too. 0: none.",
    )
    warm_ranks: int = Field(
        1,
        ge=0,
        le=1,
        description="`1`: one process of a worker has imported what ranks import, and ranks are forked from it"
        " ([warm ranks](operations.md#warm-ranks)). `0`: each rank imports it by itself.",
    )
    rank_env: Annotated[str, AfterValidator(texts.rank_env)] = Field(
        "",
        max_length=8192,
        description="[Variables of NCCL and Horovod](operations.md#variables-for-ranks) for every rank:"
        " `NCCL_IB_HCA=mlx5_0,mlx5_1,NCCL_DEBUG=INFO`. Every user of the host can read them.",
    )
    slurm_partition: str | None = Field(
        None,
        pattern=_PARTITION_NAME,
        description="The partition of Slurm that this worker offers as a [pool](slurm.md), beside slots of its own. For"
        " workers on a login node.",
    )
    slurm_account: str | None = Field(
        None,
        pattern=_SLURM_NAME,
        max_length=128,
        description="The account that Slurm charges for the jobs of the pool.",
    )
    slurm_qos: str | None = Field(
        None, pattern=_SLURM_NAME, max_length=128, description="The quality of service (QOS) that its jobs ask for."
    )
    slurm_args: Annotated[str, AfterValidator(texts.slurm_args)] = Field(
        "",
        max_length=4096,
        description="Further options of `sbatch` for each of its jobs: `--cpus-per-gpu=8 --mem-per-gpu=64G`.",
    )
    host_name: str | None = Field(
        None,
        pattern=_HOST_NAME,  # supervisors of a pool have the pool's name
        max_length=255,
        description="The host's name in the service, by default the machine's own name. Do not change it between"
        " restarts.",
    )
    address: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9.:_-]*$",
        max_length=255,
        description="The address at which the stack's other hosts reach this one. Without it no job uses this host"
        " together with another.",
    )
    ssh_dir: Path | None = Field(
        None,
        description="The folder with the keys that the stack's hosts share, made by `hora keys`. Without them no job"
        " uses several hosts.",
    )
    ssh_port: int = Field(
        2222, ge=1, le=65535, description="The port on which workers accept ssh connections of the other hosts."
    )
    network_interface: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="The interface over which ranks of several hosts talk. It has the same name on all of them.",
    )
    port: int = Field(8400, ge=0, le=65535, description="The api's port. 0 takes a free one.")
    rate_limit_per_s: float = Field(
        100.0,
        gt=0,
        description="Requests a second for a token of the scopes `read`, `submit` and `code` without a"
        " [limit of its own](access.md#rate-limits).",
    )
    user_rate_limit_per_s: float = Field(
        400.0,
        gt=0,
        description="Requests a second for all tokens and sessions of a user together. A token with a higher limit of"
        " its own keeps that.",
    )
    changes_per_day: int = Field(
        100_000,
        ge=1,
        description="[Changes](access.md#rate-limits) that a user may make in a day, each submitted job counted. A"
        " fifth of them may be made at once.",
    )
    max_streams: int = Field(
        500,
        ge=1,
        description="[Live streams](live.md) that one user may have open at once, at all apis together.",
    )
    max_queued_jobs: int = Field(
        10_000,
        ge=1,
        description="Jobs that one user may have in the queue at once, paused ones included.",
    )
    auth_failures_per_s: float = Field(
        5.0, gt=0, description="Requests a second from one address with tokens that are unknown, expired or revoked."
    )
    connections: int = Field(
        6000, ge=10, description="[Connections](operations.md#connections) to one api that may be open at once."
    )
    connections_per_address: int = Field(
        1000,
        ge=10,
        description="The same for one address, or one /64 network of IPv6. Trusted proxies have no such limit.",
    )
    headers_timeout_s: _Seconds = Field(20.0, description="Time for a client to send the headers of a request.")
    transfer_timeout_s: _Seconds = Field(
        30.0,
        description="A request's body that arrives slower than 500 bytes a second for this long is refused. An answer"
        " that its client receives slower than that is cut off.",
    )

    reconcile_period_s: _Seconds = Field(
        1.0,
        description="Time between two passes of a worker over its host and the queue. A lost hint costs at most this.",
    )
    sample_period_s: _Seconds = Field(1.0, description="Time between two samples of utilization.")
    idle_period_s: _Seconds = Field(
        15.0, description="Time between two looks for jobs whose [slots nobody uses](idle.md)."
    )
    search_period_s: _Seconds = Field(
        1.0, description="Time between two passes of a worker over [searches](studies.md#search)."
    )
    heartbeat_period_s: _Seconds = Field(5.0, description="Time between two heartbeats of a host.")
    queue: Literal["fair", "fifo"] = Field(
        "fair",
        description="`fair`: [shares and attained service](scheduling.md#the-fair-queue) decide which job is next."
        " `fifo`: priority and age alone. For workers: the same for all.",
    )
    queue_half_life_h: float = Field(
        24.0, gt=0, le=216, description="After so many hours, usage counts half in the fair queue. For workers."
    )
    queue_quantum_s: _Seconds = Field(
        600.0,
        description="In the fair queue an attempt runs at least so long before it makes room for a job of the same"
        " priority. For workers.",
    )
    forecast_period_s: _Seconds = Field(
        15.0, description="Time between two forecasts of when [queued jobs start](scheduling.md#expected-starts)."
    )
    host_timeout_s: _Seconds = Field(30.0, description="A host without a heartbeat for this long counts as lost.")
    lease_s: _Seconds = Field(60.0, description="How long a supervisor may be out of touch with the database.")
    lease_renewal_s: _Seconds = Field(5.0, description="Time between two renewals of a supervisor's lease.")
    claim_timeout_s: _Seconds = Field(
        60.0, description="Time limit from placing an attempt until a supervisor claims it."
    )
    orders_period_s: _Seconds = Field(
        0.5, description="Time between two checks of a supervisor for a cancel, a pause or a preemption."
    )
    stop_file_grace_s: _Seconds = Field(2.5, description="Time for ranks to exit when their job ends. SIGTERM follows.")
    save_grace_s: _Seconds = Field(
        60.0, description="Time for ranks to save and exit when their job continues later, or saves before a cancel."
    )
    sigterm_grace_s: _Seconds = Field(1.0, description="Time from SIGTERM to SIGKILL for what is left of an attempt.")
    sigkill_grace_s: _Seconds = Field(
        5.0, description="Time from SIGKILL until a process that stays puts its slots into quarantine."
    )
    stop_jobs_with_worker: bool = Field(
        False,
        description="With `1`, a worker that is told to stop first lets its jobs save and go elsewhere. Without"
        " `HORA_HOST_NAME` its host then leaves the list of hosts, unless it is drained. For containers, where all"
        " processes end with the worker.",
    )
    restart_backoff_s: float = Field(
        1.0,
        ge=0,
        le=_YEAR_S,
        description="Pause before the first restart. It doubles with each restart that counts, and with each further"
        " loss of an attempt.",
    )
    restart_backoff_limit_s: float = Field(60.0, ge=0, le=_YEAR_S, description="The longest pause before a restart.")

    min_free_gb: float | None = Field(
        None,
        ge=0,
        le=1e6,
        description="The floor of free space, in GB, of each file system that Hora writes. A host below it gets"
        " [no jobs](operations.md#without-space). By default 1 GB, but at most 5 % of the file system. For workers"
        " and api.",
    )
    min_free_files: int | None = Field(
        None,
        ge=0,
        le=10**12,
        description="The same for the number of files that can still be made (inodes). By default 10,000, but at most"
        " 5 % of what the file system can hold.",
    )
    space_wait_s: _Seconds = Field(
        300.0,
        description="How long ranks that have finished training wait for space for their results. Then their attempt"
        " ends, and the job continues later.",
    )

    max_upload_gb: _Gigabytes = Field(20.0, description="The largest archive that may be uploaded.")
    max_unpacked_gb: _Gigabytes = Field(100.0, description="Total size of the files unpacked from one archive.")
    max_entries: int = Field(2_000_000, ge=1, description="Files and folders in one archive.")
    max_unpack_ratio: float = Field(200.0, ge=1, description="Unpacked bytes for each byte of an archive.")
    max_open_uploads: int = Field(10, ge=1, description="Uploads of one user that have not become a dataset yet.")
    max_job_storage_gb: _Gigabytes | None = Field(
        None,
        description="What one job may [keep on a host](operations.md#how-much-a-job-may-keep), in units of 10^9"
        " bytes. By default there is no limit. For workers and api.",
    )
    cache_dir: Path | None = Field(
        None,
        description="The host's [cache](data.md#caches) of raw files: a folder on a fast disk of its own, with the same"
        " path on all hosts. Its files may go at any time. By default `$HORA_HOME/cache`. For workers.",
    )
    cache_limit_gb: _Gigabytes | None = Field(
        None,
        description="The largest size of a host's [cache](data.md#caches), whatever `dataset.cache_limit_gb` a job asks"
        " for. By default there is no limit. For workers and api.",
    )
    inspection_timeout_s: _Seconds = Field(
        3600.0, description="Time limit for unpacking a dataset. Inspecting it has the same limit."
    )
    inspection_memory_gb: _Gigabytes = Field(
        16.0,
        description="Memory that unpacking or inspecting a dataset may use. Meanwhile a worker can validate two others,"
        " each with an eighth of this, but at least 2 GB.",
    )

    retention_period_s: _Seconds = Field(
        60.0,
        description="Time between two searches of a worker for"
        " [what can be removed](operations.md#what-is-kept-and-for-how-long).",
    )
    keep_uploads_days: _Days = Field(1.0, description="From the last piece of an upload until it is removed.")
    keep_logs_days: _Days = Field(30.0, description="From a job's end until the lines of its ranks are removed.")
    keep_steps_days: _Days = Field(30.0, description="From a job's end until its step metrics and samples are thinned.")
    keep_files_days: _Days = Field(
        30.0,
        description="From a job's end until its checkpoints, records and logs are removed from the hosts, and also its"
        " dataset, if no other job needed it and the [store](store.md#uploaded-datasets) has it.",
    )
    keep_idempotency_days: _Days = Field(
        7.0, description="For how long a [repeated submission](api.md#idempotency) is recognised by its key."
    )
    keep_audit_days: _Days = Field(
        365.0, description="For how long an entry of the [audit log](access.md#audit-log) is kept."
    )
    forget_hosts_days: _Days = Field(
        7.0, description="A host without a heartbeat for this long is removed from the list."
    )
    keep_artifacts_days: _Days = Field(
        365.0, description="From a job's end until its [artifacts](artifacts.md) are removed."
    )
    keep_deliveries_days: _Days = Field(
        30.0, description="For how long the deliveries of a [webhook](webhooks.md) are listed."
    )

    gpu_hour_price: Annotated[str, AfterValidator(texts.gpu_hour_price)] = Field(
        "",
        max_length=8192,
        description="What an hour of a slot costs, to show [costs](operations.md#costs) beside GPU-hours: `2.5` for"
        " all, or by model `default=2.5,h100=3.9,cpu=0.04`. For the api.",
    )

    webhook_allow: Annotated[str, AfterValidator(texts.webhook_targets)] = Field(
        "",
        description="Host names, addresses and networks (CIDR), separated by commas. Webhooks may point to them"
        " although they are not on the internet, and may use http there. For workers and api.",
    )
    smtp_url: Annotated[str, AfterValidator(texts.smtp_url)] | None = Field(
        None,
        max_length=1024,
        repr=False,
        description="The server that takes [mail](webhooks.md#mail) of webhooks:"
        " `smtp://USER:PASSWORD@HOST:587?from=hora@example.org`. Without it there is no mail. For workers and api.",
    )
    mail_domains: Annotated[str, AfterValidator(texts.mail_domains)] = Field(
        "",
        description="Domains that mail may go to, separated by commas, or `*` for all. By default the domain of the"
        " sender. For workers and api.",
    )
    mails_per_hour: int = Field(
        60, ge=1, le=100_000, description="Mails that the webhooks of one user may send in an hour. More have to wait."
    )
    notify_period_s: _Seconds = Field(1.0, description="Time between two searches of a worker for deliveries to send.")
    public_url: str | None = Field(
        None,
        pattern=r"^https?://[^\s?#]+$",
        description="The public address of the api, such as `https://hora.example.com`. Webhooks use it in their links"
        " to jobs.",
    )

    mlflow_url: str | None = Field(
        None,
        pattern=r"^https?://[^\s?#]+$",
        description="The [MLflow](exports.md#mlflow) tracking server to which every job is copied. For workers.",
    )
    mlflow_token: str | None = Field(None, description="The bearer token for the MLflow server, if it needs one.")
    mlflow_experiment: str = Field(
        "hora",
        min_length=1,
        max_length=500,
        description="The experiment on the MLflow server. It is created if it does not exist.",
    )
    mlflow_period_s: _Seconds = Field(10.0, description="Time between two searches for new points to copy to MLflow.")

    @property
    def ranks_lease_s(self) -> float:
        """For how long ranks run after their supervisor last held the lease: they are gone before it runs out."""
        return 0.9 * self.lease_s

    @property
    def database_patience_s(self) -> float:
        """For how long a worker or supervisor waits for one answer of the database: it can ask again in its lease."""
        return self.lease_s / 4

    @property
    def max_job_storage_bytes(self) -> int | None:
        """What one job may keep on a host. None: no limit."""
        return None if self.max_job_storage_gb is None else int(self.max_job_storage_gb * _GB)

    @property
    def runs_dir(self) -> Path:
        """Where the attempts' directories lie, one folder a job."""
        return self.home / "runs"

    @property
    def datasets(self) -> Path:
        """Where uploaded archives and datasets lie: the api writes there, and every worker reads and unpacks."""
        return (self.datasets_dir or self.home / "datasets").absolute()

    @property
    def cache_folder(self) -> Path:
        """Where `cache: disk` keeps raw files."""
        return (self.cache_dir or self.home / "cache").absolute()

    @property
    def script_user(self) -> str | None:
        """The user that runs scripts on this host; None: that of the worker. Never the host's administrator."""
        return self.code_user or ("nobody" if os.geteuid() == 0 else None)

    @property
    def packages_dir(self) -> Path:
        """The installed packages of scripts, one folder a set."""
        return self.home / "packages"

    @property
    def cpu_slots(self) -> int:
        """CPU slots of this host, if it offers no GPUs."""
        return self.slots if self.slots is not None else os.cpu_count() or 1

    @property
    def rank_variables(self) -> dict[str, str]:
        """The variables of `rank_env`."""
        return rank_variables(self.rank_env)

    @property
    def prices(self) -> Prices | None:
        """What an hour of a slot costs; None: nothing is known."""
        return prices_from(self.gpu_hour_price)

    @property
    def environment_paths(self) -> dict[str, str]:
        """The Python environments for scripts: path by name, without `default`."""
        return dict(entry.split("=", 1) for entry in texts.names_in(self.environments))

    @property
    def host(self) -> str:
        """The name this host goes by."""
        return self.host_name or socket.gethostname()

    @property
    def slurm_options(self) -> list[str]:
        """The options of `sbatch` that the operator chose."""
        chosen = {"account": self.slurm_account, "qos": self.slurm_qos}
        return [*(f"--{name}={value}" for name, value in chosen.items() if value), *shlex.split(self.slurm_args)]

    @property
    def of_pool(self) -> "Settings | None":
        """The same, for what this worker does as its pool. None: it has none."""
        if self.slurm_partition is None:
            return None
        return self.model_copy(update={"host_name": _POOL + self.slurm_partition})

    @property
    def data_root_list(self) -> list[str]:
        """The folders, as absolute paths, and URLs below which datasets and weights may be read."""
        roots = [root for root in _BETWEEN_ROOTS.split(self.data_roots) if root]
        return [root if "://" in root else os.path.abspath(root) for root in roots]

    @property
    def store_driver_options(self) -> dict[str, Any]:
        """What `store_options` says, by name."""
        options: dict[str, Any] = json.loads(self.store_options)
        return options

    @property
    def webhooks_allowed(self) -> Allowed:
        """Where webhooks may point beside the internet."""
        return allowed_from(self.webhook_allow)

    @property
    def mail_rules(self) -> MailRules:
        """Whether webhooks may send mail, and to which domains."""
        server = None if self.smtp_url is None else smtp_server_from(self.smtp_url)
        return MailRules(server, mail_domains_from(self.mail_domains))

    @property
    def model_list(self) -> list[str]:
        """The `module:function` of networks beside those of the catalog that may be trained."""
        return texts.names_in(self.models)


@cache
def settings() -> Settings:
    """This process's settings. A wrong one ends the process with a sentence."""
    try:
        return Settings()
    except ValidationError as error:
        sys.exit(in_sentences(error))


def in_sentences(error: ValidationError, verdict: str = "") -> str:
    """Which settings are wrong, and why. It has no values: some are secret."""
    wrong = error.errors(include_url=False)
    return "; ".join(
        f"{_PREFIX}{str(detail['loc'][0]).upper()}{verdict}: {in_words(detail, _WORDS)}" for detail in wrong
    )


def misspelt_in(environ: Iterable[str]) -> list[str]:
    """Sentences about variables that are no settings, but look like one: they have no effect."""
    names = [f"{_PREFIX}{name.upper()}" for name in Settings.model_fields]
    similar = {name: similar_to(name, names, 0.85) for name in environ if name.startswith(_PREFIX)}
    return [
        f"{name} has no effect: there is no such setting; did you mean {other}?"
        for name, other in sorted(similar.items())
        if other is not None
    ]
