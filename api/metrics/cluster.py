"""Metrics for Prometheus: figures of the cluster, read at each scrape (`api.metrics.totals`), and of requests."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from api.metrics import totals as figures
from api.metrics.totals import Durations, Queue, Tally, Totals
from jobs.db.engine import Sessions
from jobs.model.states import EndReason, Status
from jobs.runtime.settings import Settings

_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


def request_durations(registry: CollectorRegistry) -> Histogram:
    """How long requests take, by method, route and status."""
    return Histogram(
        "hora_http_request_duration_seconds",
        "Duration of an HTTP request, by route",
        ["method", "route", "status"],
        buckets=_BUCKETS_S,
        registry=registry,
    )


class ClusterCollector(Collector):
    """Reads the cluster's figures for each scrape. If the database is away, a gauge says so."""

    def __init__(self, sessions: Sessions, settings: Settings) -> None:
        self._sessions = sessions
        self._host_timeout_s = settings.host_timeout_s
        self._tally = Tally()

    def collect(self) -> Iterator[Metric]:
        """Read the figures."""
        try:
            families = self._read()
        except SQLAlchemyError:
            families = []
        up = GaugeMetricFamily("hora_database_up", "Whether the database answers")
        up.add_metric([], 1 if families else 0)
        yield up
        yield from families

    def describe(self) -> list[Metric]:
        """Name no metric in advance, so that registering needs no database."""
        return []

    def _read(self) -> list[Metric]:
        with self._sessions() as session:
            totals = self._tally.totals(session)
            queue = figures.queue(session)
            slots = figures.slots(session, host_timeout_s=self._host_timeout_s)
            hosts = figures.hosts(session, host_timeout_s=self._host_timeout_s)
            behind = figures.copies_behind(session)
        slot_family = GaugeMetricFamily("hora_slots", "Slots by kind and state", labels=["kind", "state"])
        for (kind, state), count in slots.items():
            slot_family.add_metric([kind, state], count)
        host_family = GaugeMetricFamily("hora_hosts", "Hosts by state", labels=["state"])
        for state, count in hosts.items():
            host_family.add_metric([state], count)
        copies = "Jobs that wait to be copied to the store for more than a minute"
        behind_family = GaugeMetricFamily("hora_jobs_copies_behind", copies, value=behind)
        return [*_of_the_queue(queue), *_of_jobs_and_attempts(totals), slot_family, host_family, behind_family]


def _of_the_queue(queue: Queue) -> Iterator[Metric]:
    jobs = GaugeMetricFamily("hora_queue_jobs", "Queued jobs by what they wait for", labels=["state"])
    for state in ("waiting", "paused", "backing_off"):
        jobs.add_metric([state], getattr(queue, state))
    yield jobs
    oldest = "How long the job that waits longest for slots has waited"
    yield GaugeMetricFamily("hora_queue_oldest_wait_seconds", oldest, value=queue.oldest_wait_s)


def _of_jobs_and_attempts(totals: Totals) -> Iterator[Metric]:
    jobs = GaugeMetricFamily("hora_jobs", "Jobs by status", labels=["status"])
    for status in Status:
        jobs.add_metric([status], totals.jobs[status])
    yield jobs
    ended = CounterMetricFamily("hora_attempts_ended", "Attempts that ended, by end reason", labels=["end_reason"])
    for reason in EndReason:
        ended.add_metric([reason], totals.ended[reason])
    yield ended
    yield GaugeMetricFamily("hora_attempts_live", "Attempts that have not ended", value=totals.live)
    yield CounterMetricFamily("hora_restarts", "Attempts after the first one of their job", value=totals.restarts)
    preempted = "Attempts that were asked to make room"
    yield CounterMetricFamily("hora_preemptions", preempted, value=totals.preemptions)
    yield _histogram("hora_queue_wait_seconds", "From queued, or queued again, to placed", totals.waits)
    yield _histogram("hora_dispatch_latency_seconds", "From placed to claimed by a supervisor", totals.dispatches)
    yield _histogram("hora_launch_latency_seconds", "From claimed to the first rank's first line", totals.launches)


def _histogram(name: str, documentation: str, durations: Durations) -> HistogramMetricFamily:
    return HistogramMetricFamily(name, documentation, durations.cumulative(), durations.sum_s)


def register(registry: CollectorRegistry, sessions: Sessions, settings: Settings) -> None:
    """Add the figures of the process and of the cluster."""
    ProcessCollector(registry=registry)
    registry.register(ClusterCollector(sessions, settings))


def register_listeners(registry: CollectorRegistry, count: Callable[[], int]) -> None:
    """Add the number of live streams."""
    Gauge("hora_live_listeners", "Live streams that are being read", registry=registry).set_function(count)
