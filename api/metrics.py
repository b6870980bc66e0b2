"""Figures for Prometheus: jobs, slots and hosts as the database has them when asked, and requests as they come."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from jobs.database import Sessions
from jobs.hosts import hosts, jobs_by_status, slots_by_state
from jobs.settings import Settings

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
    """Counts jobs, slots and hosts anew for each scrape. A database that is away is a figure, not an error."""

    def __init__(self, sessions: Sessions, settings: Settings) -> None:
        self._sessions = sessions
        self._host_timeout_s = settings.host_timeout_s

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Read the figures."""
        up = GaugeMetricFamily("hora_database_up", "Whether the database answers")
        try:
            figures = self._figures()
        except SQLAlchemyError:
            figures = []
        up.add_metric([], 1 if figures else 0)
        yield up
        yield from figures

    def describe(self) -> list[GaugeMetricFamily]:
        """Name no figure ahead, so that registering asks no database."""
        return []

    def _figures(self) -> list[GaugeMetricFamily]:
        with self._sessions() as session:
            by_status = jobs_by_status(session)
            every = hosts(session, host_timeout_s=self._host_timeout_s)
        jobs = GaugeMetricFamily("hora_jobs", "Jobs by status", labels=["status"])
        for status, count in by_status.items():
            jobs.add_metric([status], count)
        slots = GaugeMetricFamily("hora_slots", "Slots by state", labels=["state"])
        for state, count in slots_by_state(every).items():
            slots.add_metric([state], count)
        alive = GaugeMetricFamily("hora_hosts", "Hosts by whether they are alive", labels=["alive"])
        for value in (True, False):
            alive.add_metric([str(value).lower()], sum(host.alive is value for host in every))
        return [jobs, slots, alive]


def register(registry: CollectorRegistry, sessions: Sessions, settings: Settings) -> None:
    """Add the figures of the process and of the cluster."""
    ProcessCollector(registry=registry)
    registry.register(ClusterCollector(sessions, settings))
