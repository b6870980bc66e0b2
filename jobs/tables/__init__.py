"""The rows: everything Hora knows, as SQLAlchemy tables."""

from jobs.tables.base import Base
from jobs.tables.data import DatasetVersion, Upload
from jobs.tables.notices import Mirror, Webhook, WebhookDelivery
from jobs.tables.people import AuditEntry, Project, ProjectMember, ProjectUsage, Token, User
from jobs.tables.places import Host, Slot
from jobs.tables.series import HostSample, LogLine, MetricBlock, MetricPoint, Rollup, Sample
from jobs.tables.work import (
    Attempt,
    IdempotencyKey,
    Job,
    JobAnalysis,
    JobEvent,
    RunTime,
    Study,
    StudyNote,
)

SCHEMA = "0005"  # the migration that makes these tables

__all__ = [
    "SCHEMA", "Attempt", "AuditEntry", "Base", "DatasetVersion", "Host", "HostSample", "IdempotencyKey", "Job",
    "JobAnalysis", "JobEvent", "LogLine", "MetricBlock", "MetricPoint", "Mirror", "Project", "ProjectMember",
    "ProjectUsage", "Rollup", "RunTime", "Sample", "Slot", "Study", "StudyNote", "Token", "Upload", "User", "Webhook",
    "WebhookDelivery",
]  # fmt: skip
