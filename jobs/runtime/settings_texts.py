"""What the texts of settings may be. Used by `jobs.runtime.settings`; each raises ValueError for a wrong one. Pure."""

import json
import re
import shlex
from ipaddress import ip_address
from urllib.parse import urlsplit

from jobs.runtime.mail_addresses import mail_domains_from, smtp_server_from
from jobs.runtime.outbound_addresses import allowed_from
from jobs.runtime.prices import prices_from
from jobs.runtime.rank_variables import rank_variables

_STORE_SCHEMES = ("s3", "gs", "abfs", "file")
_ENVIRONMENT = re.compile(r"([a-z0-9][a-z0-9._-]{0,63})=(/[^=,:]*)")
# What Hora itself says of each job, and what would make Slurm run it in another way.
_OWN_SLURM_OPTIONS = (
    "array", "batch", "chdir", "cluster", "clusters", "error", "export", "gpus-per-node", "input", "job-name", "nodes",
    "no-requeue", "ntasks", "ntasks-per-node", "output", "parsable", "partition", "requeue", "signal", "test-only",
    "wait", "wrap",
)  # fmt: skip
_EXTERNAL_MODEL = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*")


def names_in(text: str) -> list[str]:
    """The names between commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def external_models(text: str) -> str:
    """Functions of packages, as `module:function`."""
    wrong = [name for name in names_in(text) if not _EXTERNAL_MODEL.fullmatch(name)]
    if wrong:
        raise ValueError(f"write each model as module:function, not {wrong[0]!r}")
    return text


def guarded_broker(broker_url: str) -> str:
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


def webhook_targets(text: str) -> str:
    """Names, addresses and networks."""
    allowed_from(text)
    return text


def smtp_url(text: str) -> str:
    """The URL of a mail server."""
    smtp_server_from(text)
    return text


def mail_domains(text: str) -> str:
    """Domains, or `*`."""
    mail_domains_from(text)
    return text


def store_url(text: str) -> str:
    """The URL of a bucket or a folder, without a slash at its end."""
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in _STORE_SCHEMES or not rest.strip("/"):
        raise ValueError("write s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, abfs://CONTAINER/PREFIX or file:///FOLDER")
    if scheme == "file" and not rest.startswith("/"):
        raise ValueError(f"write a whole path, file:///{rest}")
    if any(part in (".", "..") for part in rest.split("/")) or re.search(r"[?#@\s]", rest):
        raise ValueError("it must have no . and .. between its slashes, and none of ? # @ and white space")
    return text.rstrip("/")


def store_options(text: str) -> str:
    """A JSON object."""
    try:
        is_object = isinstance(json.loads(text), dict)
    except ValueError:
        is_object = False
    if not is_object:
        raise ValueError('write a JSON object, such as {"endpoint_url": "https://s3.example.com"}')
    return text


def environments(text: str) -> str:
    """Python environments, as `name=/path`."""
    for entry in names_in(text):
        match = _ENVIRONMENT.fullmatch(entry)
        if match is None or match[1] in ("default", "empty"):  # as in `jobs.model.script_fields`
            raise ValueError(f"write each environment as name=/path, not {entry!r}; default and empty are always there")
    return text


def rank_env(text: str) -> str:
    """Variables, as `NAME=VALUE`."""
    rank_variables(text)
    return text


def gpu_hour_price(text: str) -> str:
    """Prices by the model of a GPU, or one for all."""
    prices_from(text)
    return text


def slurm_args(text: str) -> str:
    """Options of `sbatch`, as `--NAME=VALUE`, but none that Hora sets itself."""
    try:
        options = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"it cannot be split into options: {error}") from None
    for option in options:
        name = option.removeprefix("--").partition("=")[0]
        if not option.startswith("--") or not name:
            raise ValueError(f"write each option as --NAME=VALUE, not {option!r}")
        if name in _OWN_SLURM_OPTIONS:
            raise ValueError(f"--{name} is an option that Hora sets itself")
    return text
