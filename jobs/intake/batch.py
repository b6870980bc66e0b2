"""What the intake stores in one transaction. Filled by `jobs.intake.batches`."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from jobs.intake.metric_book import Value
from jobs.intake.script_reports import ScriptReports
from jobs.model.alerts import Alert
from jobs.telemetry.ingest import EventRow, LogRow, MetricRow


@dataclass
class Batch:
    """The lines and records that were read since the last transaction."""

    metrics: list[MetricRow] = field(default_factory=list)
    logs: list[LogRow] = field(default_factory=list)
    events: list[EventRow] = field(default_factory=list)
    columns: dict[str, Any] = field(default_factory=dict)  # of the job's row
    started_at: datetime | None = None  # of the first rank, if it is not stored yet
    first_step: bool = False
    resumed_step: int | None = None
    setup: dict[str, float] = field(default_factory=dict)  # seconds of the phases of rank 0 that ended
    values: list[Value] = field(default_factory=list)  # that count for the last and the best of each metric
    reports: ScriptReports | None = None  # of a script, after this batch
    alerts: list[Alert] = field(default_factory=list)
