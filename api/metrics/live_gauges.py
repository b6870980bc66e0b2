"""The gauges of `GET /metrics`: running jobs, their GPUs, hosts, projects and webhooks as they are now.

`/metrics` needs no token, so labels are ids and names of hosts and projects: no job's name, no person, no path. The
label is `job_id` because Prometheus gives every series a `job` of its own.

Gauges have the same text in both of Prometheus's formats. This module writes them itself: prometheus_client takes five
times as long for a thousand hosts, because it looks at each label of each sample.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from api.metrics import current
from api.metrics.current import HostFigures, LeasedGpu, RunningJob
from jobs.db.engine import Sessions
from jobs.outward.webhooks import outbox
from jobs.outward.webhooks.outbox import Counts
from jobs.people import projects
from jobs.people.projects import ProjectState
from jobs.runtime.settings import Settings

_Row = TypeVar("_Row")


class _Gauge(NamedTuple):
    name: str
    documentation: str
    value: Callable[..., float | None]


def _progress(name: str) -> Callable[[RunningJob], float | None]:
    return lambda job: job.progress.get(name)


def _metric(name: str) -> Callable[[RunningJob], float | None]:
    return lambda job: (job.progress.get("metrics") or {}).get(name)


def _reading(name: str) -> Callable[[LeasedGpu], float | None]:
    return lambda gpu: gpu.reading.get(name)


def _sample(name: str) -> Callable[[HostFigures], float | None]:
    return lambda host: host.sample[name]


def _ratio(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


_OF_JOBS = (
    _Gauge("hora_job_slots", "Slots that a running job holds", lambda job: job.slots),
    _Gauge("hora_job_epoch", "Epoch that a running job is in", _progress("epoch")),
    _Gauge("hora_job_epochs", "Epochs that it is to train", _progress("epochs")),
    _Gauge("hora_job_step", "Step that it has come to; a restart goes back to its checkpoint", _progress("step")),
    _Gauge("hora_job_steps", "Steps that it is to train", _progress("steps")),
    _Gauge("hora_job_remaining_seconds", "How long it is expected to take from now", _progress("eta_s")),
    _Gauge("hora_job_loss", "Training loss of its newest epoch", _metric("loss")),
    _Gauge("hora_job_accuracy_ratio", "Training accuracy of its newest epoch", _metric("accuracy")),
    _Gauge("hora_job_val_loss", "Validation loss of its newest epoch", _metric("val_loss")),
    _Gauge("hora_job_val_accuracy_ratio", "Validation accuracy of its newest epoch", _metric("val_accuracy")),
    _Gauge("hora_job_samples_per_second", "Training samples over all ranks, at its newest step",
           _progress("samples_per_s")),
    _Gauge("hora_job_data_wait_ratio", "Share of its newest epoch that ranks waited for data",
           lambda job: job.data_wait),
    _Gauge("hora_job_allreduce_ratio", "Share of its newest epoch that ranks exchanged gradients or waited for peers",
           lambda job: job.allreduce),
)  # fmt: skip
_OF_PROJECTS = (
    _Gauge("hora_project_slots", "Slots that the project's jobs hold", lambda project: project.usage.slots),
    _Gauge("hora_project_slots_limit", "Slots that they may hold at once", lambda project: project.max_slots),
    _Gauge("hora_project_queued_jobs", "Jobs of the project that wait", lambda project: project.usage.queued),
    _Gauge("hora_project_queued_jobs_limit", "Jobs of it that may wait at once", lambda project: project.max_queued),
    _Gauge("hora_project_slot_seconds", "Time that its jobs held slots this calendar month, in UTC",
           lambda project: 3600 * project.usage.gpu_hours),
    _Gauge("hora_project_slot_seconds_limit", "Time that they may hold slots in a calendar month",
           lambda project: None if project.max_gpu_hours is None else 3600 * project.max_gpu_hours),
)  # fmt: skip
_OF_GPUS = (
    _Gauge("hora_gpu_utilization_ratio", "Share of the last window in which a kernel ran on a leased GPU",
           lambda gpu: _ratio(gpu.reading.get("percent"))),
    _Gauge("hora_gpu_memory_used_bytes", "Memory in use of a leased GPU", _reading("memory_bytes")),
    _Gauge("hora_gpu_memory_bytes", "Memory that a leased GPU has", lambda gpu: gpu.memory_bytes),
    _Gauge("hora_gpu_power_watts", "Power that a leased GPU draws", _reading("power_w")),
    _Gauge("hora_gpu_temperature_celsius", "Temperature of a leased GPU", _reading("temperature_c")),
)  # fmt: skip
_OF_HOSTS = (
    _Gauge("hora_host_up", "Whether the host's worker is heard of", lambda host: host.is_alive),
    _Gauge("hora_host_drained", "Whether nothing new is placed on the host", lambda host: host.is_drained),
    _Gauge("hora_host_cpu_ratio", "Share of the host's processors in use",
           lambda host: _ratio(host.sample["cpu_percent"])),
    _Gauge("hora_host_memory_used_bytes", "Memory of the host that no new process could have", _sample("memory_bytes")),
    _Gauge("hora_host_memory_bytes", "Memory that the host has", lambda host: host.memory_bytes),
    _Gauge("hora_host_network_received_bytes_per_second", "Bytes received", _sample("network_received_bytes_per_s")),
    _Gauge("hora_host_network_sent_bytes_per_second", "Bytes sent", _sample("network_sent_bytes_per_s")),
    _Gauge("hora_host_disk_read_bytes_per_second", "Bytes read from disks", _sample("disk_read_bytes_per_s")),
    _Gauge("hora_host_disk_written_bytes_per_second", "Bytes written to disks", _sample("disk_written_bytes_per_s")),
)  # fmt: skip


_OF_WEBHOOKS = _Gauge("hora_webhook_deliveries", "Messages of webhooks by state", lambda count: count)


class LiveGauges:
    """Reads and writes the gauges for each scrape."""

    def __init__(self, sessions: Sessions, settings: Settings) -> None:
        self._sessions = sessions
        self._host_timeout_s = settings.host_timeout_s

    def text(self) -> str:
        """The gauges in lines; none while the database is away."""
        try:
            with self._sessions() as session:
                return "".join(self._lines(session))
        except SQLAlchemyError:
            return ""

    def _lines(self, session: Session) -> Iterator[str]:
        jobs = current.running_jobs(session)
        gpus = current.leased_gpus(session, host_timeout_s=self._host_timeout_s)
        hosts = current.hosts(session, host_timeout_s=self._host_timeout_s)
        states: list[ProjectState] = projects.states(session)
        deliveries: Counts = outbox.counts(session)
        yield from _lines(_OF_JOBS, (_labels(job_id=job.job_id, project=job.project) for job in jobs), jobs)
        yield from _lines(
            _OF_GPUS, (_labels(host=gpu.host, slot=str(gpu.slot), job_id=gpu.job_id) for gpu in gpus), gpus
        )
        yield from _lines(_OF_HOSTS, (_labels(host=host.name) for host in hosts), hosts)
        yield from _lines(_OF_PROJECTS, (_labels(project=project.name) for project in states), states)
        labels = (_labels(state="pending"), _labels(state="failed"))
        yield from _lines([_OF_WEBHOOKS], labels, (deliveries.pending, deliveries.failed))


def _labels(**values: str) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in values.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _lines(gauges: Iterable[_Gauge], labels: Iterable[str], rows: Sequence[_Row]) -> Iterator[str]:
    """The samples of each gauge, below its documentation. Unknown values have no sample."""
    labelled = list(zip(labels, rows, strict=True))
    for name, documentation, value_of in gauges:
        yield f"# HELP {name} {documentation}\n# TYPE {name} gauge\n"
        values = [(of_row, value_of(row)) for of_row, row in labelled]
        yield "".join([f"{name}{of_row} {float(value)!r}\n" for of_row, value in values if value is not None])
