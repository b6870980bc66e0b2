"""All rows of Hora, as SQLAlchemy tables."""

from jobs.db.tables.articles import Article, ArticleVersion
from jobs.db.tables.base import Base
from jobs.db.tables.code import CodeArchive, CodePiece, CodeSender
from jobs.db.tables.data import DatasetSample, DatasetVersion, HostDataset, Upload, UploadPiece
from jobs.db.tables.notices import MailHour, Mirror, Webhook, WebhookDelivery
from jobs.db.tables.people import (
    AccountStanding,
    AuditEntry,
    Project,
    ProjectMember,
    ProjectUsage,
    SavedView,
    Token,
    UsageHour,
    User,
)
from jobs.db.tables.places import Allocation, Host, Slot
from jobs.db.tables.series import HostSample, IdleStretch, LogLine, MetricBlock, MetricPoint, Rollup, Sample
from jobs.db.tables.service import MarkedStore, SigningKey
from jobs.db.tables.work import (
    SORTED_BY,
    Attempt,
    DeletedAttempt,
    DeletedJob,
    IdempotencyKey,
    Job,
    JobAnalysis,
    JobEvent,
    JobText,
    JobWait,
    RunTime,
    StartForecast,
    Study,
    StudyNote,
)

SCHEMA = "0033"  # the migration that makes these tables

__all__ = [
    "SCHEMA", "SORTED_BY", "AccountStanding", "Allocation", "Article", "ArticleVersion", "Attempt", "AuditEntry",
    "Base", "CodeArchive", "CodePiece", "CodeSender", "DatasetSample", "DatasetVersion", "DeletedAttempt", "DeletedJob",
    "Host", "HostDataset", "HostSample", "IdempotencyKey", "IdleStretch", "Job", "JobAnalysis", "JobEvent", "JobText",
    "JobWait", "LogLine", "MailHour", "MarkedStore", "MetricBlock", "MetricPoint", "Mirror", "Project", "ProjectMember",
    "ProjectUsage", "Rollup", "RunTime", "Sample", "SavedView", "SigningKey", "Slot", "StartForecast", "Study",
    "StudyNote", "Token", "Upload", "UploadPiece", "UsageHour", "User", "Webhook", "WebhookDelivery",
]  # fmt: skip
