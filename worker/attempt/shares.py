"""Assigns the ranks of an attempt to its hosts, and builds the tasks of members that follow from it.

Used by the launcher. The builders are pure; `layout_of` reads the rows.
"""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, Host, Slot
from jobs.lifecycle.store import get_job
from jobs.model.launch import Launch, launch_file_name
from jobs.model.pools import is_pool
from jobs.model.spec import spec_from
from jobs.runtime.processes import MARK
from jobs.scheduling.allocations import allocation_of
from jobs.scheduling.pools import Shape
from worker.attempt.layout import LOOPBACK, HostShare, Layout, on_this_host, threads_of
from worker.attempt.member_protocol import MemberTask
from worker.attempt.members import MembersLaunch
from worker.attempt.paths import AttemptPaths
from worker.attempt.script_launch import NO_CODE, CodeOfMember, on_member
from worker.attempt.slurm_steps import step


def layout_of(session: Session, attempt_id: int, *, cpu_slots: int) -> Layout:
    """The layout of an attempt's ranks. `cpu_slots` are those of this host. Raises `OSError` if it cannot work."""
    attempt = session.get_one(Attempt, attempt_id)
    spec = spec_from(get_job(session, attempt.job_id).spec)
    return _layout_of_slots(session, attempt, cpu_slots=cpu_slots).of_strategy(spec.strategy)


def _layout_of_slots(session: Session, attempt: Attempt, *, cpu_slots: int) -> Layout:
    """The layout of a rank for each slot of an attempt."""
    if is_pool(attempt.host):
        return _on_nodes(session, attempt)
    slots = session.scalars(select(Slot).where(Slot.attempt_id == attempt.id).order_by(Slot.rank)).all()
    names = list(dict.fromkeys(slot.host for slot in slots))
    if len(names) == 1:
        uuids = [slot.uuid for slot in slots if slot.uuid is not None]
        threads = 0 if uuids else threads_of(len(slots), cores=os.cpu_count() or 1, slots=cpu_slots)
        return on_this_host(len(slots), host=names[0], gpu_uuids=uuids, threads=threads)
    return _across_hosts(session, names, slots)


def _on_nodes(session: Session, attempt: Attempt) -> Layout:
    allocation = allocation_of(session, attempt)
    if allocation is None or allocation.slurm_job is None or not allocation.nodes:
        raise OSError(f"{attempt.host} has no nodes for attempt {attempt.number}")
    shape = Shape(**allocation.shape)
    shares = [
        HostShare(
            node, node, range(place * shape.ranks, (place + 1) * shape.ranks), (),
            threads_per_rank=0 if shape.kind == "gpu" else 1, own_gpus=shape.ranks if shape.kind == "gpu" else 0,
        )
        for place, node in enumerate(allocation.nodes)
    ]  # fmt: skip
    return Layout(shares, LOOPBACK if len(shares) == 1 else "", allocation.slurm_job)


def _across_hosts(session: Session, names: Sequence[str], slots: Sequence[Slot]) -> Layout:
    hosts = {host.name: host for host in session.scalars(select(Host).where(Host.name.in_(names)))}
    count_by_host = (
        select(Slot.host, func.count())
        .where(Slot.host.in_(names), Slot.kind == "cpu", Slot.retired_at.is_(None))
        .group_by(Slot.host)
    )
    slot_counts = {row[0]: row[1] for row in session.execute(count_by_host)}
    shares = []
    for name in names:
        address, cores = hosts[name].address, hosts[name].info.get("cores") or 1
        if address is None:
            raise OSError(f"host {name} no longer has an address for other hosts")
        host_slots = [slot for slot in slots if slot.host == name]
        uuids = [slot.uuid for slot in host_slots if slot.uuid is not None]
        threads = 0 if uuids else threads_of(len(host_slots), cores=cores, slots=slot_counts.get(name, 0))
        ranks = [slot.rank for slot in host_slots if slot.rank is not None]
        shares.append(HostShare(name, address, ranks, uuids, threads))
    interface = hosts[names[0]].info.get("interface")
    if interface is None:
        raise OSError(f"host {names[0]} has registered no network interface")
    return Layout(shares, interface)


def member_task(
    launch: Launch,
    share: HostShare,
    paths: AttemptPaths,
    code: CodeOfMember = NO_CODE,
    *,
    mark: str,
    has_files: bool = False,
    sample_period_s: float = 0.0,
) -> MemberTask:
    """The task of the member on another host: the lead's launch file with that host's own devices and paths.

    Its files have a folder of their own. So they differ from the lead's files even if the hosts share their storage.
    `has_files`: it is the first node of a pool, on which rank 0 writes checkpoints and artifacts. It sees the code that
    was unpacked for it.
    """
    member_paths = paths.of_member(share.host)
    script = launch.script
    if script is not None and not has_files:
        script = on_member(launch.spec, script, member_paths, code.memory_bytes)
    member_launch = launch.model_copy(
        update={
            "threads_per_rank": share.threads_per_rank,
            "gpu_uuids": list(share.gpu_uuids),
            "records_dir": str(member_paths.records),
            "logs_dir": str(member_paths.logs),
            "stop_path": str(member_paths.stop_file),
            "lease_path": str(member_paths.lease_file),
            "script": script,
        }
    )
    return MemberTask(
        host=share.host,
        mark=mark,
        ranks=list(share.ranks),
        launch=member_launch.model_dump(mode="json"),
        launch_file=str(paths.launch_dir / launch_file_name(share.address)),
        scratch=str(paths.scratch),  # all ranks get the same TMPDIR
        code_archive=str(member_paths.code_archive) if code.archive_bytes and not has_files else "",
        code_bytes=0 if has_files else code.archive_bytes,
        sample_period_s=sample_period_s,
        own_gpus=share.own_gpus,
        slots_of_rank=share.slots_of_rank,
    )


def _of_member(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment that `srun` takes to a node: that of the ranks, without what makes a process one of them."""
    return {name: value for name, value in environment.items() if name not in (MARK, "CUDA_VISIBLE_DEVICES")}


def members_launch(
    tasks: Sequence[MemberTask],
    layout: Layout,
    paths: AttemptPaths,
    *,
    ssh: Sequence[str],
    environment: Mapping[str, str],
    ready_within_s: float,
) -> MembersLaunch:
    """The input for starting an attempt's members. Empty for a job on one host."""
    # ssh joins the arguments after the address with blanks, and a shell on the other side parses them.
    variables = [f"PYTHONPATH={environment['PYTHONPATH']}"] if "PYTHONPATH" in environment else []
    program = ["env", *variables, sys.executable, "-m", "worker.member"]
    if layout.slurm_job is not None:
        commands = [[*step(layout.slurm_job, share.address), *program] for share in layout.members]
    else:
        commands = [[*ssh, share.address, shlex.join(program)] for share in layout.members]
    return MembersLaunch(
        commands=commands,
        members=[asdict(task) for task in tasks],
        environment=None if layout.slurm_job is None else _of_member(environment),
        records=str(paths.records),
        logs=str(paths.logs),
        lease_file=str(paths.lease_file),
        ready_within_s=ready_within_s,
        code_archive=str(paths.code_archive) if any(task.code_bytes for task in tasks) else "",
    )
