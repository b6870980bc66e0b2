"""The table of all sampled metrics: what a sampler reads each second of a GPU, of a rank and of a host.

To add a metric:

1. add it here;
2. add the column to `jobs.db.tables.Sample` or `HostSample`, with a migration;
3. read it: `worker.host.gpus` for a GPU, `worker.sampling` for a rank or a host;
4. add its row to docs/telemetry.md.

Everything else follows from this table: storing, series and their units, thinning, the parameters of the API, the
gauges of `GET /metrics` and the copies for other servers. `tests/unit/jobs/telemetry/test_sampled_metrics.py` compares
this table with the columns and with the readings, `tests/unit/test_docs.py` with the page.

Any metric may be null, which means unknown. All are aggregated alike, in bands and in roll-ups: count, least, greatest,
mean and 95th percentile. For a metric in bits, only single values have a meaning.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Subject = Literal["gpu", "rank", "host"]
Unit = Literal["percent", "bytes", "watts", "celsius", "megahertz", "bits", "processes", "bytes per second"]

_MEGA = 1e6


@dataclass(frozen=True)
class Exported:
    """A metric under the name and in the unit of another system: its value divided by `divisor`."""

    name: str
    divisor: float = 1.0


@dataclass(frozen=True)
class SampledMetric:
    """One metric. `name` is its column: of `samples` for a GPU or a rank, of `host_samples` for a host."""

    subject: Subject
    name: str
    unit: Unit
    meaning: str
    gauge: Exported | None = None  # of Prometheus
    mirrored: Exported | None = None  # by the names and in the units of MLflow's own system metrics

    @property
    def reading_name(self) -> str:
        """Its name in a reading of a GPU, a rank or a host, without that prefix: `percent` for `gpu_percent`."""
        return self.name.removeprefix("gpu_")


SAMPLED_METRICS = (
    SampledMetric("gpu", "gpu_percent", "percent", "Share of the last window in which a kernel ran",
                  gauge=Exported("hora_gpu_utilization_ratio", 100),
                  mirrored=Exported("system/gpu_{rank}_utilization_percentage")),
    SampledMetric("gpu", "gpu_memory_bytes", "bytes", "Memory in use",
                  gauge=Exported("hora_gpu_memory_used_bytes"),
                  mirrored=Exported("system/gpu_{rank}_memory_usage_megabytes", _MEGA)),
    SampledMetric("gpu", "gpu_power_w", "watts", "Power that the GPU draws",
                  gauge=Exported("hora_gpu_power_watts"),
                  mirrored=Exported("system/gpu_{rank}_power_usage_watts")),
    SampledMetric("gpu", "gpu_temperature_c", "celsius", "Temperature",
                  gauge=Exported("hora_gpu_temperature_celsius")),
    SampledMetric("gpu", "gpu_sm_clock_mhz", "megahertz", "Clock of the multiprocessors (SM)"),
    SampledMetric("gpu", "gpu_throttle", "bits", "Why the clock is lower than it could be: NVML's bits"),
    SampledMetric("gpu", "gpu_processes", "processes", "Processes that compute on it, of any user"),
    SampledMetric("rank", "cpu_percent", "percent", "CPU that its processes on the host use, of one core",
                  mirrored=Exported("system/rank_{rank}_cpu_utilization_percentage")),
    SampledMetric("rank", "memory_bytes", "bytes", "Resident memory of its processes on the host",
                  mirrored=Exported("system/rank_{rank}_memory_usage_megabytes", _MEGA)),
    SampledMetric("host", "cpu_percent", "percent", "CPU in use, of all cores",
                  gauge=Exported("hora_host_cpu_ratio", 100)),
    SampledMetric("host", "memory_bytes", "bytes", "Memory that is not available to a new process",
                  gauge=Exported("hora_host_memory_used_bytes")),
    SampledMetric("host", "network_received_bytes_per_s", "bytes per second", "Received from the network",
                  gauge=Exported("hora_host_network_received_bytes_per_second")),
    SampledMetric("host", "network_sent_bytes_per_s", "bytes per second", "Sent to the network",
                  gauge=Exported("hora_host_network_sent_bytes_per_second")),
    SampledMetric("host", "disk_read_bytes_per_s", "bytes per second", "Read from disks",
                  gauge=Exported("hora_host_disk_read_bytes_per_second")),
    SampledMetric("host", "disk_written_bytes_per_s", "bytes per second", "Written to disks",
                  gauge=Exported("hora_host_disk_written_bytes_per_second")),
)  # fmt: skip


def _by_name(*subjects: Subject) -> Mapping[str, SampledMetric]:
    return {metric.name: metric for metric in SAMPLED_METRICS if metric.subject in subjects}


GPU_METRICS = _by_name("gpu")
SLOT_METRICS = _by_name("gpu", "rank")  # the columns of `samples`
HOST_METRICS = _by_name("host")  # the columns of `host_samples`
METRIC_NAMES = tuple(dict.fromkeys(metric.name for metric in SAMPLED_METRICS))  # a rank and its host share some
