"""Settings of a process: read once from the environment (`HORA_*`), frozen after that.

Every part reads the same names, so a stack is configured in one place. Durations are seconds.
"""

import os
import re
import socket
import sys
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from jobs.runtime.default_home import default_home
from jobs.runtime.outbound_addresses import Allowed, allowed_from

# Between two roots, and not the colon of s3:// or of a port.
_BETWEEN_ROOTS = re.compile(r":(?!//|[0-9])")
_EXTERNAL_MODEL = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _external_models(text: str) -> str:
    wrong = [name for name in _names(text) if not _EXTERNAL_MODEL.fullmatch(name)]
    if wrong:
        raise ValueError(f"write each model as module:function, not {wrong[0]!r}")
    return text


def _guarded(broker_url: str) -> str:
    """A broker that other machines reach has a password: whoever writes to it has workers do something."""
    try:
        parts = urlsplit(broker_url)
        host, password = parts.hostname, parts.password
    except ValueError:
        raise ValueError("it is no URL") from None
    if parts.scheme in ("redis", "rediss") and not password and not _is_loopback(host or "localhost"):
        raise ValueError(f"the broker on {host} has no password: write redis://:PASSWORD@{host}, and let it require it")
    return broker_url


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a name
        return host == "localhost"


def _webhook_targets(text: str) -> str:
    allowed_from(text)
    return text


class Settings(BaseSettings):
    """One stack's settings. A field `x_y` is read from `HORA_X_Y`."""

    model_config = SettingsConfigDict(env_prefix="HORA_", frozen=True, extra="ignore", env_ignore_empty=True)

    home: Path = Field(default_factory=default_home)
    database_url: str = "postgresql://hora@localhost/hora"
    broker_url: Annotated[str, AfterValidator(_guarded)] = "redis://localhost:6379/0"
    token: str | None = None  # the api stores it as an admin token; the CLI sends it
    data_roots: str = ""  # folders and URLs, separated by colons
    models: Annotated[str, AfterValidator(_external_models)] = ""  # module:function of allowed ones, with commas
    datasets_dir: Path | None = None  # uploads, and the datasets that they become; None: a folder of `home`
    slots: int | None = Field(default=None, ge=1, le=4096)  # CPU slots; None: the host's cores
    host_name: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=255)] = None
    address: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.:_-]*$", max_length=255)] = None
    ssh_dir: Path | None = None  # keys that the hosts of this stack share; None: no jobs on several hosts here
    ssh_port: int = Field(default=2222, ge=1, le=65535)
    network_interface: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] = None
    port: int = Field(default=8400, ge=0, le=65535)
    rate_limit_per_s: float = Field(default=100.0, gt=0)  # requests of a token that is no admin's and has no limit
    auth_failures_per_s: float = Field(default=5.0, gt=0)  # tokens that are not known, from one address

    reconcile_period_s: float = Field(default=1.0, gt=0)  # a lost hint costs at most this
    sample_period_s: float = Field(default=1.0, gt=0)
    heartbeat_period_s: float = Field(default=5.0, gt=0)
    host_timeout_s: float = Field(default=30.0, gt=0)  # without a heartbeat for so long, a host is lost
    lease_s: float = Field(default=60.0, gt=0)
    lease_renewal_s: float = Field(default=5.0, gt=0)
    claim_timeout_s: float = Field(default=60.0, gt=0)  # from placed to a supervisor that took it
    orders_period_s: float = Field(default=0.5, gt=0)  # how often a supervisor looks for a cancel
    stop_file_grace_s: float = Field(default=2.5, gt=0)  # ranks see the stop file and leave
    save_grace_s: float = Field(default=60.0, gt=0)  # the same where the job goes on later: they save first
    sigterm_grace_s: float = Field(default=1.0, gt=0)
    sigkill_grace_s: float = Field(default=5.0, gt=0)  # a process that outlives it quarantines its slots
    stop_jobs_with_worker: bool = False  # where a worker's end takes all processes along, as in a container
    restart_backoff_s: float = Field(default=1.0, ge=0)  # doubled with each restart that counts
    restart_backoff_limit_s: float = Field(default=60.0, ge=0)

    max_upload_gb: float = Field(default=20.0, gt=0)
    max_unpacked_gb: float = Field(default=100.0, gt=0)
    max_entries: int = Field(default=2_000_000, ge=1)  # files and folders of an archive
    max_unpack_ratio: float = Field(default=200.0, ge=1)  # bytes that come of one byte of an archive
    max_open_uploads: int = Field(default=10, ge=1)  # of one user
    inspection_timeout_s: float = Field(default=3600.0, gt=0)  # for one dataset: unpacking it, and then looking at it
    inspection_memory_gb: float = Field(default=16.0, gt=0)  # that this may take of a host

    retention_period_s: float = Field(default=60.0, gt=0)
    keep_uploads_days: float = Field(default=1.0, gt=0)  # since the last piece came
    keep_logs_days: float = Field(default=30.0, gt=0)  # after a job's end
    keep_steps_days: float = Field(default=30.0, gt=0)  # then step metrics and samples are thinned
    keep_files_days: float = Field(default=30.0, gt=0)  # checkpoints, records and logs below `runs_dir`
    keep_idempotency_days: float = Field(default=7.0, gt=0)  # Idempotency-Keys
    keep_audit_days: float = Field(default=365.0, gt=0)  # what people did
    forget_hosts_days: float = Field(default=7.0, gt=0)  # a lost host leaves the list
    keep_artifacts_days: float = Field(default=365.0, gt=0)  # after a job's end
    keep_deliveries_days: float = Field(default=30.0, gt=0)  # of webhooks

    webhook_allow: Annotated[str, AfterValidator(_webhook_targets)] = ""  # hosts and networks beside the internet
    notify_period_s: float = Field(default=1.0, gt=0)  # how often a worker looks for deliveries
    public_url: Annotated[str | None, Field(pattern=r"^https?://[^\s?#]+$")] = None  # of the api, in deliveries

    mlflow_url: Annotated[str | None, Field(pattern=r"^https?://[^\s?#]+$")] = None  # None: nothing is mirrored
    mlflow_token: str | None = None
    mlflow_experiment: str = Field(default="hora", min_length=1, max_length=500)
    mlflow_period_s: float = Field(default=10.0, gt=0)

    @property
    def ranks_lease_s(self) -> float:
        """For how long ranks run after their supervisor last held the lease: they are gone before it runs out."""
        return 0.9 * self.lease_s

    @property
    def database_patience_s(self) -> float:
        """For how long a worker or supervisor waits for one answer of the database: it can ask again in its lease."""
        return self.lease_s / 4

    @property
    def runs_dir(self) -> Path:
        """Where the attempts' directories lie, one folder a job."""
        return self.home / "runs"

    @property
    def datasets(self) -> Path:
        """Where uploaded archives and datasets lie: the api writes there, and every worker reads and unpacks."""
        return (self.datasets_dir or self.home / "datasets").absolute()

    @property
    def cpu_slots(self) -> int:
        """Slots of this host where it has no GPU."""
        return self.slots or os.cpu_count() or 1

    @property
    def host(self) -> str:
        """The name this host goes by."""
        return self.host_name or socket.gethostname()

    @property
    def data_root_list(self) -> list[str]:
        """The folders, as absolute paths, and URLs below which datasets and weights may be read."""
        roots = [root for root in _BETWEEN_ROOTS.split(self.data_roots) if root]
        return [root if "://" in root else os.path.abspath(root) for root in roots]

    @property
    def webhooks_allowed(self) -> Allowed:
        """Where webhooks may point beside the internet."""
        return allowed_from(self.webhook_allow)

    @property
    def model_list(self) -> list[str]:
        """The `module:function` of networks beside those of the catalog that may be trained."""
        return _names(self.models)


@cache
def settings() -> Settings:
    """This process's settings. A wrong one ends the process with a sentence, which has no value: some are secret."""
    try:
        return Settings()
    except ValidationError as error:
        wrong = error.errors(include_input=False)
        sys.exit("; ".join(f"HORA_{str(detail['loc'][0]).upper()}: {detail['msg']}" for detail in wrong))
