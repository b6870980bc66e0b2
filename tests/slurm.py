"""A real Slurm on this machine, from Debian's packages: munge, a controller, and a `slurmd` for each node.

    with slurm(nodes=2, gpus=2) as cluster:
        cluster.environment   # SLURM_CONF, for whoever runs Slurm's commands
        cluster.stop_controller()

All nodes are this machine. With `networks` each has a name, a network and mounts of its own (`tests.namespaces`). Their
GPUs are null devices: Slurm counts and hands them out, and nothing can compute on them. There is no accounting
database. Everything is in a folder of its own and ends with the test.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from stat import S_IFCHR

import pytest

from jobs.runtime.processes import environment, pids
from tests import namespaces
from tests.namespaces import HELD, Network
from tests.servers import free_ports
from tests.waiting import until

PARTITION = "main"
_PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
_COMMANDS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "scancel", "sinfo")
_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
_PORTS = range(15_000, 18_000)
_CONF = """
ClusterName=tests
SlurmctldHost={controller}
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=2,sched_interval=2,bf_continue
MpiDefault=none
GresTypes=gpu
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout=30
KillWait=5
UnkillableStepTimeout=300
MessageTimeout={patience_s}
MinJobAge=300
SlurmctldPidFile={folder}/slurmctld.pid
StateSaveLocation={folder}/state
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdSpoolDir={folder}/spool-%n
PartitionName={partition} Nodes={nodes} Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """A cluster whose parts can be taken away and brought back."""

    def __init__(
        self, folder: Path, *, nodes: Sequence[str], cpus: int, gpus: int, patience_s: int, network: Network | None
    ) -> None:
        self.folder = folder
        self.nodes = nodes
        self.network = network
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf")}
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._configure(cpus=cpus, gpus=gpus, patience_s=patience_s)

    def _configure(self, *, cpus: int, gpus: int, patience_s: int) -> None:
        host, ports = socket.gethostname(), free_ports(_PORTS, len(self.nodes) + 1)
        (self.folder / "munge.key").write_bytes(secrets.token_bytes(1024))
        (self.folder / "munge.key").chmod(0o400)
        (self.folder / "state").mkdir()
        controller = host if self.network is None else f"{host}({self.network.own_ip})"
        lines = [
            _CONF.format(
                folder=self.folder, controller=controller, port=ports[0], partition=PARTITION,
                nodes=",".join(self.nodes), patience_s=patience_s,
            )
        ]  # fmt: skip
        gres = []
        for node, port in zip(self.nodes, ports[1:], strict=True):
            (self.folder / f"spool-{node}").mkdir()
            has = f" Gres=gpu:{gpus}" if gpus else ""
            has += f" NodeAddr={self.network.ips[node]}" if self.network is not None else ""
            lines.append(f"NodeName={node} NodeHostname={host} Port={port} CPUs={cpus} RealMemory=2000{has}")
            for index in range(gpus):
                os.mknod(self.folder / f"{node}-gpu{index}", 0o666 | S_IFCHR, os.makedev(1, 3))
            if gpus:
                gres.append(f"NodeName={node} Name=gpu File={self.folder}/{node}-gpu[0-{gpus - 1}]")
        (self.folder / "slurm.conf").write_text("\n".join(lines) + "\n")
        (self.folder / "gres.conf").write_text("\n".join(gres) + "\n")

    def start(self) -> None:
        """Start all parts. Returns when all nodes are idle."""
        socket_path = self.folder / "munge.socket"
        self._run_daemon(
            "munged", "--foreground", "--force", f"--key-file={self.folder / 'munge.key'}", f"--socket={socket_path}",
            f"--pid-file={self.folder / 'munged.pid'}", f"--log-file={self.folder / 'munged.log'}",
            f"--seed-file={self.folder / 'munge.seed'}",
        )  # fmt: skip
        until(socket_path.exists, what="munge")
        self.start_controller()
        for node in self.nodes:
            self.start_node(node)
        until(self._is_idle, what="idle nodes of Slurm")

    def start_controller(self) -> None:
        """Start the controller. It knows the jobs that it knew before."""
        self._run_daemon("slurmctld", "-D", "-i")

    def stop_controller(self) -> None:
        """End the controller, which saves what it knows. Jobs run on, and no command gets an answer."""
        self._end("slurmctld", number=signal.SIGTERM)

    def start_node(self, node: str) -> None:
        """Start the `slurmd` of a node."""
        inside = [] if self.network is None else self.network.inside(node)
        self._run_daemon(f"slurmd-{node}", "-D", "-N", node, before=inside)

    def kill_node(self, node: str) -> None:
        """Kill the `slurmd` of a node. The steps there run on, and Slurm learns it after `SlurmdTimeout`."""
        self._end(f"slurmd-{node}")

    def set_node(self, node: str, state: str) -> None:
        """Have an administrator put a node into another state: drain, down or resume."""
        self.run("scontrol", "update", f"NodeName={node}", f"State={state}", "Reason=test")

    def resume_node(self, node: str) -> None:
        """Have an administrator take a node back into service, if Slurm has not done it."""

        def is_in_service() -> bool:
            state = self.run("sinfo", "--noheader", f"--nodes={node}", "--format=%T").strip().rstrip("*")
            if state not in ("down", "drained", "draining"):
                return True
            with suppress(AssertionError):  # Slurm did it in this moment
                self.set_node(node, "resume")
            return False

        until(is_in_service, what=f"node {node}")

    def are_idle(self) -> bool:
        """Whether all nodes are idle."""
        return self.run("sinfo", "--noheader", "--Node", "--format=%T").split() == ["idle"] * len(self.nodes)

    def run(self, *argv: str) -> str:
        """What a command of Slurm prints."""
        variables = {"PATH": _PATH, "HOME": "/root", **self.environment}
        done = subprocess.run(argv, env=variables, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"
        return done.stdout

    def submit(self, script: Path, *options: str, **variables: str) -> str:
        """Hand a script to `sbatch`, from its folder and with these variables; returns the id of its job."""
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        done = subprocess.run(
            ["sbatch", "--parsable", *options, script.name], env={**kept, **self.environment, **variables},
            cwd=script.parent, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def state(self, job: str) -> str:
        """The state of a job by its id, such as COMPLETED."""
        return self.run("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T").strip()

    def jobs(self) -> Mapping[str, str]:
        """The state of each job that Slurm knows, by name."""
        lines = self.run("squeue", "--noheader", "--states=all", "--format=%j %T").splitlines()
        return dict(line.split() for line in lines)

    def end_jobs(self) -> None:
        """End all jobs. Returns when the nodes are idle."""
        self.run("scancel", "--user=root", "--full")
        until(self._is_idle, what="idle nodes of Slurm")

    def close(self) -> None:
        """End all jobs and all parts."""
        for name in [*(f"slurmd-{node}" for node in self.nodes), "slurmctld", "munged"]:
            self._end(name, number=signal.SIGTERM)
        _kill_steps(self.environment["SLURM_CONF"])

    def _is_idle(self) -> bool:
        for name, daemon in self._daemons.items():
            assert daemon.poll() is None, self._log(name)
        with suppress(AssertionError):  # there is no answer yet
            return self.are_idle()
        return False

    def _run_daemon(self, name: str, *arguments: str, before: Sequence[str] = ()) -> None:
        program = shutil.which(name.partition("-")[0], path=_PATH)
        assert program is not None
        with (self.folder / f"{name}.out").open("ab") as log:
            self._daemons[name] = subprocess.Popen(
                [*HELD, *before, program, *arguments],  # it ends with the thread that started it
                env={"PATH": _PATH, "HOME": "/root", **self.environment},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _end(self, name: str, number: int = signal.SIGKILL) -> None:
        daemon = self._daemons.pop(name, None)
        if daemon is None:
            return
        daemon.send_signal(number)
        try:
            daemon.wait(10)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()

    def _log(self, name: str) -> str:
        return f"{name} ended: {(self.folder / f'{name}.out').read_text(errors='replace')[-2000:]}"


@contextmanager
def slurm(
    *, nodes: int = 2, cpus: int = 2, gpus: int = 0, networks: bool = False, patience_s: int = 60
) -> Iterator[Slurm]:
    """A started cluster, until the end of the block. Its folder has a short name, because of munge's socket.

    Its commands wait `patience_s` for an answer. A test that stops the controller makes this short.
    """
    require_slurm()
    if networks and (reason := namespaces.reason_to_skip()):
        pytest.skip(reason)
    names = [f"n{number}" for number in range(1, nodes + 1)]
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="slurm-")))
        network = opened.enter_context(namespaces.network(folder, names)) if networks else None
        cluster = Slurm(folder, nodes=names, cpus=cpus, gpus=gpus, patience_s=patience_s, network=network)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.close()


def require_slurm() -> None:
    """Skip the test where Slurm is missing, or this user cannot start it."""
    if os.geteuid() != 0:
        pytest.skip("only root can start Slurm's daemons")
    if missing := [command for command in _COMMANDS if shutil.which(command, path=_PATH) is None]:
        pytest.skip(f"there is no {', '.join(missing)} (Debian: apt-get install {' '.join(_PACKAGES)})")


def _kill_steps(conf: str) -> None:
    """Kill the processes of steps, which outlive the daemons of their nodes."""
    for pid in pids():
        if f"SLURM_CONF={conf}".encode() in environment(pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
