"""Builds the part of the launch file that is about a script, and fetches its code. Called by the launcher.

CannotRunScript     the script cannot be started here; `reason` is why the attempt ends
"""

import sys
from collections.abc import Mapping, Sequence
from configparser import ConfigParser
from configparser import Error as WrongConfiguration
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_urlsafe

import psutil
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from jobs.data.code import CodeNotFound, pieces_of
from jobs.data.resolving import sizes_in
from jobs.data.script_data import NoSuchData, ScriptData, script_data
from jobs.db.engine import Sessions
from jobs.db.tables import Host, Slot
from jobs.model.documents import knows_batch
from jobs.model.launch import ScriptLaunch, ScriptPackages
from jobs.model.plan import DatasetSizes, Plan, UnworkablePlan, resolve_plan
from jobs.model.pools import is_pool
from jobs.model.script_fields import EMPTY, OWN_ENVIRONMENTS, REQUIREMENTS_FILE, WrongPlaceholder, filled_in
from jobs.model.script_values import placeholders
from jobs.model.spec import Spec
from jobs.model.states import EndReason
from jobs.runtime import shared_memory
from jobs.runtime.files import make_private
from jobs.runtime.settings import Settings
from jobs.scheduling.pools import PoolNode
from worker.attempt.code_folder import BadCode, hand_over, library_folder, unpack_code
from worker.attempt.paths import AttemptPaths

_GB = 1e9
_SHARE_OF_MEMORY = 0.9  # of a host, for the scripts of all its slots


class CannotRunScript(RuntimeError):
    """A script cannot be started on this host; the text is a sentence."""

    def __init__(self, reason: EndReason, message: str) -> None:
        self.reason = reason
        super().__init__(message)


@dataclass(frozen=True)
class CodeOfMember:
    """What the task of another host says of a script: the size of its archive, and the memory of one rank there."""

    archive_bytes: int = 0
    memory_bytes: int | None = None


NO_CODE = CodeOfMember()


@dataclass(frozen=True)
class PreparedScript:
    """The script of an attempt, whose code lies unpacked on the lead host. Empty for Hora's own loop."""

    launch: ScriptLaunch | None = None
    archive_bytes: int = 0
    memory_bytes: Mapping[str, int] = field(default_factory=dict)  # by host what one rank may use

    def of_member(self, host: str) -> CodeOfMember:
        """What another host needs."""
        return CodeOfMember(self.archive_bytes, self.memory_bytes.get(host))


def prepare_script(
    sessions: Sessions,
    spec: Spec,
    paths: AttemptPaths,
    settings: Settings,
    *,
    hosts: Sequence[str],
    gpus: int,
    uploaded: bool,
    source: str | None,
) -> PreparedScript:
    """Fetch and unpack the code of a job, if it has any, and build its part of the launch file of this host.

    `source` is the path or URL of the registered data that it names; `uploaded`: it lies below the folder of datasets.
    The archive is kept for the other `hosts`. Raises `CannotRunScript`, `OSError`.
    """
    if spec.code is None:
        return PreparedScript()
    require_allowed(spec, settings)
    with sessions() as session:
        sizes = None if spec.dataset is None else sizes_in(session, spec)
        memory_bytes = memory_of_ranks(session, hosts, settings)
    data = _data_of(spec, settings, source, uploaded=uploaded)
    _require_apart(data, settings)
    limit = memory_bytes[settings.host]
    launch = script_launch(spec, paths, settings, gpus=gpus, sizes=sizes, data=data, memory_bytes=limit)
    fetch_code(sessions, spec.code, paths.code_archive)
    archive_bytes = paths.code_archive.stat().st_size
    _unpack(paths, spec.code)
    hand_over(launch.model_dump())
    if len(hosts) == 1:  # also in a pool, where the first node sees the code
        paths.code_archive.unlink()
    return PreparedScript(launch, archive_bytes, memory_bytes)


def _require_apart(data: ScriptData, settings: Settings) -> None:
    """Raises `CannotRunScript` if a script could read the files of the worker as its data."""
    home = settings.home.resolve()
    for path in data.readable:
        if home.is_relative_to(Path(path).resolve()):
            message = f"the dataset holds {home}, which no script may read: name a folder without it"
            raise CannotRunScript(EndReason.BAD_DATA, message)


def memory_of_ranks(session: Session, hosts: Sequence[str], settings: Settings) -> dict[str, int]:
    """By host the memory that one rank of a script may use: the operator's limit, or a slot's share of the memory."""
    if settings.max_code_memory_gb is not None:
        return dict.fromkeys(hosts, int(settings.max_code_memory_gb * _GB))
    slots = select(func.count()).where(Slot.host == Host.name, Slot.retired_at.is_(None)).scalar_subquery()
    if is_pool(settings.host):
        return _memory_on_nodes(session, hosts, settings.host)
    rows = session.execute(select(Host.name, Host.info, slots).where(Host.name.in_(hosts)))
    own = psutil.virtual_memory().total
    return {
        name: int(_SHARE_OF_MEMORY * (info.get("memory_bytes") or own) / max(count, 1)) for name, info, count in rows
    }


def _memory_on_nodes(session: Session, nodes: Sequence[str], pool: str) -> dict[str, int]:
    """The same for nodes of a pool, which has the least of them itself. Slurm may allow less."""
    known = [PoolNode.from_json(node) for node in session.get_one(Host, pool).info["nodes"]]
    parts = {node.name: node.memory_bytes / max(sum(node.gpus.values()) or node.cpus, 1) for node in known}
    least = min(parts.values(), default=float(psutil.virtual_memory().total))
    return {name: int(_SHARE_OF_MEMORY * parts.get(name, least)) for name in (pool, *nodes)}


def require_allowed(spec: Spec, settings: Settings) -> None:
    """Raises `CannotRunScript` if the operator of this host does not let it run this script.

    Another host may. So the job goes back to the queue as long as it has restarts.
    """
    host = settings.host
    if settings.code != "on":
        raise CannotRunScript(EndReason.LAUNCH_FAILED, f"host {host} runs no code of users: HORA_CODE is off there")
    if spec.environment not in (*OWN_ENVIRONMENTS, *settings.environment_paths):
        message = f"host {host} has no environment {spec.environment}: it is not in HORA_ENVIRONMENTS there"
        raise CannotRunScript(EndReason.LAUNCH_FAILED, message)
    folder = settings.environment_paths.get(spec.environment)
    if folder is not None and not Path(folder, "bin", "python").exists():
        message = f"host {host} lacks the environment {spec.environment}: there is no {folder}/bin/python"
        raise CannotRunScript(EndReason.LAUNCH_FAILED, message)
    if spec.requirements is not None and settings.code_requirements != "on":
        message = f"host {host} installs no packages for jobs: HORA_CODE_REQUIREMENTS is off there"
        raise CannotRunScript(EndReason.LAUNCH_FAILED, message)


def fetch_code(sessions: Sessions, digest: str, archive: Path) -> None:
    """Write the archive of the code from the database to a file. Raises `CannotRunScript`, `OSError`."""
    try:
        with sessions() as session, archive.open("wb") as file:
            for piece in pieces_of(session, digest):
                file.write(piece)
    except CodeNotFound:
        message = f"the archive of the code is gone: {digest}"
        raise CannotRunScript(EndReason.INTERNAL_ERROR, message) from None


def _unpack(paths: AttemptPaths, digest: str) -> None:
    try:
        unpack_code(paths.code_archive, digest=digest, code_dir=paths.code, lib_dir=paths.lib)
    except BadCode as error:
        raise CannotRunScript(EndReason.SCRIPT_FAILED, str(error)) from None
    make_private(paths.own_checkpoints)


def _data_of(spec: Spec, settings: Settings, source: str | None, *, uploaded: bool) -> ScriptData:
    uploads = str(settings.datasets) if uploaded else None
    try:
        return script_data(spec.dataset, settings.data_root_list, registered=source, uploads=uploads)
    except NoSuchData as error:
        raise CannotRunScript(EndReason.BAD_DATA, str(error)) from None


def script_launch(
    spec: Spec,
    paths: AttemptPaths,
    settings: Settings,
    *,
    gpus: int,
    sizes: DatasetSizes | None,
    data: ScriptData,
    memory_bytes: int | None,
) -> ScriptLaunch:
    """The script's part of the launch file of the lead host. Raises `CannotRunScript`."""
    try:
        plan = resolve_plan(spec, sizes, gpus=gpus)
    except UnworkablePlan as error:
        raise CannotRunScript(EndReason.BAD_DATA, f"{error.field}: {error}") from None
    folder = settings.environment_paths.get(spec.environment)
    own_folders = [str(paths.lib), library_folder(), str(paths.checkpoints)]
    weights = settings.home / "weights"
    if weights.is_dir():
        own_folders.append(str(weights))
    return ScriptLaunch(
        command=_command(spec, plan, data.train, data.validation, artifacts=paths.artifacts),
        plan=plan,
        knows_batch=knows_batch(spec.model_dump(mode="json", include={"code", "batch_size", "command"})),
        code_dir=str(paths.code),
        lib_dir=str(paths.lib),
        bin_dir=None if folder is None else f"{folder}/bin",
        packages=_packages(spec, paths, settings, folder),
        env=spec.env,
        train=data.train,
        validation=data.validation,
        readable=[*data.readable, *own_folders, *environment_folders(folder)],
        writable=[str(folder) for folder in (paths.code, paths.own_checkpoints, paths.artifacts)],
        home=str(settings.home),
        scratch=str(paths.scratch),
        shared_memory=shared_memory.new_folder(),
        store_secret=token_urlsafe(16),
        user=settings.script_user,
        memory_bytes=memory_bytes,
        storage_bytes=_storage_bytes(settings),
    )


def _packages(spec: Spec, paths: AttemptPaths, settings: Settings, folder: str | None) -> ScriptPackages | None:
    """What the ranks have to install. None if the environment has all that the script needs."""
    if spec.requirements is None and spec.environment != EMPTY:
        return None
    from_file = spec.requirements == REQUIREMENTS_FILE
    return ScriptPackages(
        requirements=[] if isinstance(spec.requirements, str) else spec.requirements or [],
        file=str(paths.code / REQUIREMENTS_FILE) if from_file else None,
        base=sys.executable if folder is None else f"{folder}/bin/python",
        alone=spec.environment == EMPTY,
        folder=str(settings.packages_dir),
        timeout_s=settings.requirements_timeout_s,
        most_bytes=int(settings.max_requirements_gb * _GB),
    )


def _command(spec: Spec, plan: Plan, train: str | None, validation: str | None, *, artifacts: Path) -> list[str]:
    values = placeholders(spec, plan, train=train, validation=validation, artifacts=str(artifacts))
    try:
        return list(filled_in(spec.command or [], values))
    except WrongPlaceholder as error:
        raise CannotRunScript(EndReason.INTERNAL_ERROR, f"command: {error}") from None


def on_member(spec: Spec, script: ScriptLaunch, member_paths: AttemptPaths, memory_bytes: int | None) -> ScriptLaunch:
    """The same on another host of the attempt, which has no checkpoints and artifacts of the job.

    What its ranks leave as artifacts goes to their copy of the code, which is removed.
    """
    own = {script.code_dir: str(member_paths.code), script.lib_dir: str(member_paths.lib)}
    shared = {str(member_paths.checkpoints), str(member_paths.own_checkpoints), str(member_paths.artifacts)}
    return script.model_copy(
        update={
            "command": _command(spec, script.plan, script.train, script.validation, artifacts=member_paths.code),
            "code_dir": str(member_paths.code),
            "lib_dir": str(member_paths.lib),
            "packages": _packages_on(script.packages, member_paths),
            "readable": [own.get(path, path) for path in script.readable if path not in shared],
            "writable": [own.get(path, path) for path in script.writable if path not in shared],
            "shared_memory": shared_memory.new_folder(),
            "memory_bytes": memory_bytes,
        }
    )


def _packages_on(packages: ScriptPackages | None, paths: AttemptPaths) -> ScriptPackages | None:
    if packages is None or packages.file is None:
        return packages
    return packages.model_copy(update={"file": str(paths.code / REQUIREMENTS_FILE)})


def environment_folders(folder: str | None) -> list[str]:
    """What a script must be able to read to run a Python environment: its folder, and that of the Python below it."""
    if folder is None:
        return []
    configuration = ConfigParser()
    try:
        configuration.read_string("[venv]\n" + Path(folder, "pyvenv.cfg").read_text("utf-8"))
        home = configuration["venv"]["home"]
    except (OSError, ValueError, KeyError, WrongConfiguration):
        return [folder]  # it is no virtual environment, so it has a Python of its own
    base = Path(home).resolve().parent
    return [folder] if base == base.parent else [folder, str(base)]


def _storage_bytes(settings: Settings) -> int:
    own = int(settings.max_code_storage_gb * _GB)
    return own if settings.max_job_storage_bytes is None else min(own, settings.max_job_storage_bytes)
