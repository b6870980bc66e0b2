"""Gauges of the current state for `GET /metrics`: running jobs, their GPUs, hosts, projects, webhooks.

`/metrics` needs no token. So labels are ids and the names of hosts, projects and metrics: no names of jobs or people,
no paths. The label is `job_id` because Prometheus sets a `job` of its own.

Gauges have the same text in both of Prometheus's formats. They are written here, not by prometheus_client: that takes
five times as long for a thousand hosts, because it checks each label of each sample.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from jobs.telemetry.sampled_metrics import GPU_METRICS, HOST_METRICS, SampledMetric

_Row = TypeVar("_Row")


class _Gauge(NamedTuple):
    name: str
    documentation: str
    value: Callable[..., float | None]


def _progress(name: str) -> Callable[[RunningJob], float | None]:
    return lambda job: job.progress.get(name)


def _metric(name: str) -> Callable[[RunningJob], float | None]:
    return lambda job: (job.progress.get("metrics") or {}).get(name)


def _value_in_reading(metric: SampledMetric) -> Callable[[LeasedGpu], float | None]:
    return lambda gpu: gpu.reading.get(metric.reading_name)


def _value_in_sample(metric: SampledMetric) -> Callable[[HostFigures], float | None]:
    return lambda host: host.sample[metric.name]


def _sampled(
    metrics: Mapping[str, SampledMetric], value_in: Callable[[SampledMetric], Callable[..., float | None]]
) -> Iterator[_Gauge]:
    """The gauges of sampled metrics."""
    for metric in metrics.values():
        if metric.gauge is not None:
            value = _divided(value_in(metric), metric.gauge.divisor)
            yield _Gauge(metric.gauge.name, metric.meaning, value)


def _divided(value_of: Callable[[_Row], float | None], divisor: float) -> Callable[[_Row], float | None]:
    def quotient(row: _Row) -> float | None:
        value = value_of(row)
        return None if value is None else value / divisor

    return quotient


_OF_JOBS = (
    _Gauge("hora_job_slots", "Slots that a running job holds", lambda job: job.slots),
    _Gauge("hora_job_epoch", "Epoch that a running job is in", _progress("epoch")),
    _Gauge("hora_job_epochs", "Epochs that it will train", _progress("epochs")),
    _Gauge("hora_job_step", "Newest step of a running job; a restart goes back to its checkpoint", _progress("step")),
    _Gauge("hora_job_steps", "Steps that it will train", _progress("steps")),
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
_OF_METRICS = _Gauge("hora_job_metric", "Newest value of a metric of a running job", lambda value: value)
_OF_PROJECTS = (
    _Gauge("hora_project_slots", "Slots that the project's jobs hold", lambda project: project.usage.slots),
    _Gauge("hora_project_slots_limit", "Limit on the slots of its jobs", lambda project: project.max_slots),
    _Gauge("hora_project_queued_jobs", "Jobs of the project that wait", lambda project: project.usage.queued),
    _Gauge("hora_project_queued_jobs_limit", "Limit on its waiting jobs", lambda project: project.max_queued),
    _Gauge("hora_project_slot_seconds", "Time that its jobs held slots this calendar month, in UTC",
           lambda project: 3600 * project.usage.gpu_hours),
    _Gauge("hora_project_slot_seconds_limit", "Limit on the time that its jobs hold slots in a calendar month",
           lambda project: None if project.max_gpu_hours is None else 3600 * project.max_gpu_hours),
)  # fmt: skip
_OF_GPUS = (  # that are leased
    _Gauge("hora_gpu_memory_bytes", "Memory that the GPU has", lambda gpu: gpu.memory_bytes),
    *_sampled(GPU_METRICS, _value_in_reading),
)
_OF_HOSTS = (
    _Gauge("hora_host_up", "Whether the host's worker sends heartbeats", lambda host: host.is_alive),
    _Gauge("hora_host_drained", "Whether the host is drained and gets no new jobs", lambda host: host.is_drained),
    _Gauge("hora_host_no_space", "Whether the host gets no new jobs until there is space", lambda host: host.no_space),
    _Gauge("hora_host_no_store", "Whether nothing is copied from the host to the store", lambda host: host.no_store),
    _Gauge("hora_host_memory_bytes", "Memory that the host has", lambda host: host.memory_bytes),
    *_sampled(HOST_METRICS, _value_in_sample),
)
_OF_FOLDERS = (
    _Gauge("hora_folder_free_bytes", "Free space in a folder that Hora writes", lambda space: space["free_bytes"]),
    _Gauge("hora_folder_floor_bytes", "Free space below which the host gets no new jobs",
           lambda space: space["least_bytes"]),
    _Gauge("hora_folder_free_files", "Files that can still be made there", lambda space: space["free_files"]),
    _Gauge("hora_folder_floor_files", "Free files below which the host gets no new jobs",
           lambda space: space["least_files"]),
)  # fmt: skip
_OF_WEBHOOKS = _Gauge("hora_webhook_deliveries", "Messages of webhooks by state", lambda count: count)


class LiveGauges:
    """Writes the gauges for each scrape."""

    def __init__(self, sessions: Sessions, settings: Settings) -> None:
        self._sessions = sessions
        self._host_timeout_s = settings.host_timeout_s

    def text(self) -> str:
        """The gauges as text; empty while the database is away."""
        try:
            with self._sessions() as session:
                return "".join(self._lines(session))
        except SQLAlchemyError:
            return ""

    def _lines(self, session: Session) -> Iterator[str]:
        jobs = current.running_jobs(session)
        gpus = current.leased_gpus(session, host_timeout_s=self._host_timeout_s)
        hosts = current.hosts(session, host_timeout_s=self._host_timeout_s)
        project_states: list[ProjectState] = projects.states(session)
        deliveries: Counts = outbox.counts(session)
        yield from _lines(_OF_JOBS, (_labels(job_id=job.job_id, project=job.project) for job in jobs), jobs)
        values = [(job, name, value) for job in jobs for name, value in job.metrics.items()]
        labels = (_labels(job_id=job.job_id, project=job.project, name=name) for job, name, _ in values)
        yield from _lines([_OF_METRICS], labels, [value for *_, value in values])
        yield from _lines(
            _OF_GPUS, (_labels(host=gpu.host, slot=str(gpu.slot), job_id=gpu.job_id) for gpu in gpus), gpus
        )
        yield from _lines(_OF_HOSTS, (_labels(host=host.name) for host in hosts), hosts)
        folders = [
            (_labels(host=host.name, folder=name), space)
            for host in hosts
            for space in host.folders
            for name in space["folders"]
        ]
        yield from _lines(_OF_FOLDERS, (labels for labels, _ in folders), [space for _, space in folders])
        yield from _lines(_OF_PROJECTS, (_labels(project=project.name) for project in project_states), project_states)
        states = (_labels(state="pending"), _labels(state="failed"))
        yield from _lines([_OF_WEBHOOKS], states, (deliveries.pending, deliveries.failed))


def _labels(**values: str) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in values.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _lines(gauges: Iterable[_Gauge], labels: Iterable[str], rows: Sequence[_Row]) -> Iterator[str]:
    """The samples of each gauge below its description. A row whose value is unknown has none."""
    labelled = list(zip(labels, rows, strict=True))
    for name, documentation, value_of in gauges:
        yield f"# HELP {name} {documentation}\n# TYPE {name} gauge\n"
        values = [(of_row, value_of(row)) for of_row, row in labelled]
        yield "".join([f"{name}{of_row} {float(value)!r}\n" for of_row, value in values if value is not None])
