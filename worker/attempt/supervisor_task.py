"""What a supervisor gets to do its work: launch file, command lines, environments. Built by the launcher.

If a host of the attempt still fetches its data, nothing can be built yet. Then the supervisor waits for that, and
builds the rest itself.
"""

import errno
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from jobs.copies.resuming import last_valid_steps
from jobs.data import host_datasets
from jobs.data.resolving import with_source
from jobs.db.engine import Sessions
from jobs.lifecycle.dataset_refs import Ref
from jobs.lifecycle.named_jobs import weights_job
from jobs.lifecycle.store import Lease, get_job
from jobs.model.launch import Expected, Launch, ScriptLaunch, launch_file_name
from jobs.model.os_errors import in_words
from jobs.model.problems import InvalidSpec
from jobs.model.spec import Spec, spec_from
from jobs.model.states import EndReason
from jobs.runtime.processes import mark_of
from jobs.runtime.settings import Settings
from jobs.runtime.space import is_full
from jobs.scheduling.allocations import slurm_name
from worker.attempt import lease_file
from worker.attempt.allocation_files import files_of as allocation_files
from worker.attempt.gpu_use import gpus_in_use, in_use_text
from worker.attempt.launch_file import basic_launch
from worker.attempt.layout import Layout, horovodrun_argv
from worker.attempt.paths import AttemptPaths, paths_of
from worker.attempt.script_launch import CannotRunScript, prepare_script
from worker.attempt.shares import layout_of, member_task, members_launch
from worker.attempt.slurm_steps import variables_for_srun
from worker.attempt.void_checkpoints import remove_void
from worker.host.inherited import rank_environment
from worker.host.ssh import command, files_of


def launch_of(
    job_id: str,
    spec: Spec,
    paths: AttemptPaths,
    settings: Settings,
    layout: Layout,
    ref: Ref | None = None,
    script: ScriptLaunch | None = None,
) -> Launch:
    """The launch file of the lead host; `ref` is the registered dataset of the job, `script` is for its script."""
    read = spec if ref is None else with_source(spec, source_of(ref, settings.datasets))
    uploads = [str(settings.datasets)] if ref is not None and ref["uploaded"] else []
    of_service = {
        "expected": None if ref is None else _expected_of(spec, ref),
        "data_roots": [*settings.data_root_list, *uploads],
        "job_weights": job_weights_path(settings.runs_dir, spec),
        "lease_path": str(paths.lease_file),
        "script": script,
    }
    return basic_launch(job_id, read, paths, settings, layout, layout.lead).model_copy(update=of_service)


def job_weights_path(runs_dir: Path, spec: Spec) -> str | None:
    """The path of the weights from which the spec starts, if they are those of another job."""
    job_id = weights_job(spec)
    return None if job_id is None else str(runs_dir / job_id / "artifacts" / "model.weights.h5")


def missing_weights(runs_dir: Path, spec: Spec) -> tuple[str, str] | None:
    """The job from whose weights the spec starts, and their path, if this host lacks them."""
    job_id, path = weights_job(spec), job_weights_path(runs_dir, spec)
    return None if job_id is None or path is None or Path(path).exists() else (job_id, path)


def source_of(ref: Ref, datasets_dir: Path) -> str:
    """The path or URL of a registered version, on this host."""
    return str(datasets_dir / ref["source"]) if ref["uploaded"] else str(ref["source"])


def _expected_of(spec: Spec, ref: Ref) -> Expected | None:
    """The figures that the ranks should find there. None if the spec reads the data otherwise than validation did."""
    dataset, registered = spec.own_dataset, ref["options"]
    read_as = (registered["label"], registered["format"], registered.get("text"))
    if (dataset.label, dataset.format, dataset.text) != read_as:
        return None
    return Expected(dataset=f"{ref['name']}@{ref['version']}", **ref["expects"])


@dataclass(frozen=True)
class SupervisorTask:
    """The input of a supervisor, on its standard input because a process list must not show the token."""

    attempt_id: int
    token: str
    job_id: str
    number: int
    argv: list[str]
    environment: dict[str, str]
    launcher_log: str
    lease_file: str
    ranks_here: int = 0  # on this host
    members: dict[str, Any] = field(default_factory=dict)  # a `MembersLaunch`; empty for a job on one host
    waits_for_data: bool = False  # a host still fetches it; only then the command, and what follows here, is known
    fetches: bool = False  # what it starts from may be in the store, or in the folder of another job
    origin: str | None = None  # the checkpoint of another job from which this one continues, as the spec names it
    is_script: bool = False
    weights_of: tuple[str, str] | None = None  # another job whose weights are not on this host, and where they belong
    leaving_file: str = ""  # in a pool: it is there when Slurm is about to take the nodes back

    @property
    def in_pool(self) -> bool:
        """Whether its ranks run on nodes of a Slurm pool, and none on this host."""
        return bool(self.leaving_file)

    @property
    def lease(self) -> Lease:
        """The lease that this supervisor holds."""
        return Lease(self.attempt_id, self.token, self.job_id, self.number)


class GpusInUse(OSError):
    """Another process computes on GPUs of an attempt that has not started yet."""

    def __init__(self, host: str, uuids: Sequence[str]) -> None:
        super().__init__(errno.EBUSY, in_use_text(host, uuids))
        self.uuids = uuids


def why_not_started(error: OSError | InvalidSpec | CannotRunScript) -> tuple[EndReason, str]:
    """Why an attempt ends whose ranks were not started, and its sentence."""
    if isinstance(error, CannotRunScript):
        return error.reason, str(error)
    if isinstance(error, InvalidSpec):
        return EndReason.INTERNAL_ERROR, f"the supervisor did not start: {error}"
    is_space = is_full(error) or error.errno == errno.EIO  # a disk that cannot be written is the host's fault
    reason = EndReason.NO_SPACE if is_space else EndReason.LAUNCH_FAILED
    return reason, f"the supervisor did not start: {in_words(error)}"


def task_of(sessions: Sessions, settings: Settings, lease: Lease, *, claimed_at: float) -> SupervisorTask:
    """The task of an attempt that this host claimed at `claimed_at`, on its steady clock.

    Raises `OSError`, `InvalidSpec`, `CannotRunScript`.
    """
    with sessions() as session:
        ref = get_job(session, lease.job_id).dataset_ref
        layout = layout_of(session, lease.attempt_id, cpu_slots=settings.cpu_slots)
        arrivals = (
            []
            if ref is None
            else host_datasets.arrivals(session, ref, lease.attempt_id, host_timeout_s=settings.host_timeout_s)
        )
    paths = paths_of(settings.runs_dir, lease.job_id, lease.number)
    paths.create(() if layout.slurm_job is not None else layout.lead.ranks)
    lease_file.extend(paths.lease_file, claimed_at + settings.ranks_lease_s)
    if all(arrival.is_here for arrival in arrivals):
        return whole_task(sessions, settings, lease)
    return SupervisorTask(
        lease.attempt_id, lease.token, lease.job_id, lease.number, [], {}, str(paths.launcher_log),
        str(paths.lease_file), waits_for_data=True,
    )  # fmt: skip


def whole_task(sessions: Sessions, settings: Settings, lease: Lease) -> SupervisorTask:
    """The task of an attempt whose data is on all its hosts. Raises as `task_of`."""
    with sessions() as session:
        job = get_job(session, lease.job_id)
        spec, ref = spec_from(job.spec), job.dataset_ref
        layout = layout_of(session, lease.attempt_id, cpu_slots=settings.cpu_slots)
        last_steps = last_valid_steps(session, lease.job_id)
    if in_use := gpus_in_use(layout.lead.gpu_uuids):  # another process came in the moment before they were leased
        raise GpusInUse(settings.host, in_use)
    paths = paths_of(settings.runs_dir, lease.job_id, lease.number)
    if lease.number > 1:
        remove_void(paths.checkpoints, last_steps, of_script=spec.is_script)
    weights_of = missing_weights(settings.runs_dir, spec)
    script = prepare_script(
        sessions, spec, paths, settings, hosts=[share.host for share in layout.shares], gpus=layout.ranks,
        uploaded=ref is not None and ref["uploaded"],
        source=None if ref is None else source_of(ref, settings.datasets),
    )  # fmt: skip
    launch = launch_of(lease.job_id, spec, paths, settings, layout, ref, script.launch)
    if layout.slurm_job is None:
        launch_file = paths.launch_dir / launch_file_name(layout.lead.address)
        launch_file.write_text(launch.model_dump_json(indent=2), "utf-8")
    mark, files = mark_of(lease.job_id, lease.number), files_of(settings)
    environment = rank_environment(
        os.environ, mark=mark, home=settings.home, scratch=paths.scratch, threads=layout.lead.threads_per_rank,
        variables=settings.rank_variables,
    )  # fmt: skip
    leaving_file = ""
    if layout.slurm_job is not None:
        environment |= variables_for_srun()
        leaving_file = str(allocation_files(settings).leaving(slurm_name(lease.job_id, lease.number)))
    member_tasks = [
        member_task(
            launch, share, paths, script.of_member(share.host), mark=mark, has_files=share is layout.lead,
            sample_period_s=0.0 if layout.slurm_job is None else settings.sample_period_s,
        )
        for share in layout.members
    ]  # fmt: skip
    members = members_launch(
        member_tasks, layout, paths,
        ssh=command(files), environment=environment, ready_within_s=settings.ranks_lease_s / 2,
    )  # fmt: skip
    return SupervisorTask(
        attempt_id=lease.attempt_id,
        token=lease.token,
        job_id=lease.job_id,
        number=lease.number,
        argv=horovodrun_argv(layout, launch_dir=paths.launch_dir, ssh_config=files.client_config),
        environment=environment,
        launcher_log=str(paths.launcher_log),
        lease_file=str(paths.lease_file),
        ranks_here=0 if layout.slurm_job is not None else len(layout.lead.ranks),
        members=asdict(members) if member_tasks else {},
        fetches=spec.continue_from is not None
        or (settings.store is not None and (lease.number > 1 or weights_of is not None)),
        origin=spec.continue_from,
        is_script=spec.is_script,
        weights_of=weights_of,
        leaving_file=leaving_file,
    )
