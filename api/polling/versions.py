"""Versions of answers: whether an answer changed, in one indexed read. Called by the api for its entity tags.

Equal versions mean equal answers to the same question. Different versions need not mean different answers.
Every writer of metrics, logs or samples also changes a value that is read here, in the same transaction: an intake
moves the offsets of its attempt, notes and changes of a study raise its revision, and retention raises the job's
revision when it has finished.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import String, TextClause, bindparam, func, select, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from jobs.db.tables import JobEvent
from jobs.insight.studies.store import StudyNotFound
from jobs.lifecycle.store import JobNotFound
from jobs.model.states import TERMINAL

_ATTEMPTS = """
    (SELECT string_agg(concat_ws('/', number, resumed_step, md5(offsets::text)), ',' ORDER BY number)
     FROM attempts WHERE job_id = jobs.id)
"""
# While a series is thinned, it changes with every batch, but its job's row changes only at the end.
_THINNED = """
    (CASE WHEN series_thinned_at IS NULL AND EXISTS (SELECT FROM rollups WHERE job_id = jobs.id)
     THEN clock_timestamp() END)
"""
_METRICS = text(f"""
    SELECT id, revision, {_ATTEMPTS}, {_THINNED} FROM jobs WHERE id = ANY(:ids) ORDER BY id
""").bindparams(bindparam("ids", type_=ARRAY(String)))  # noqa: S608 - constants of this module

# A host's samples are stored with those of its ranks, sorted by time; retention removes the oldest first. The limit of
# memory that charts draw is that of the hosts as they are now.
_SAMPLES = text(f"""
    SELECT revision, {_ATTEMPTS}, {_THINNED},
        (SELECT string_agg(newest.at::text, ',' ORDER BY attempts.number, of_rank.rank)
         FROM attempts, generate_series(0, attempts.gpus - 1) AS of_rank(rank), LATERAL (
            SELECT max(at) AS at FROM samples
            WHERE job_id = jobs.id AND attempt = attempts.number AND samples.rank = of_rank.rank
         ) AS newest WHERE attempts.job_id = jobs.id),
        (SELECT string_agg(concat_ws('/', hosts.name, info ->> 'memory_bytes',
            (SELECT string_agg(concat_ws(':', index, memory_bytes), '+' ORDER BY index)
             FROM slots WHERE host = hosts.name),
            (SELECT min(at) FROM host_samples WHERE host = hosts.name AND at >= jobs.created_at)
         ), ',' ORDER BY hosts.name) FROM hosts WHERE hosts.name IN (
            SELECT coalesce(share ->> 'host', host)
            FROM attempts LEFT JOIN LATERAL jsonb_array_elements(shares) AS share ON true WHERE job_id = jobs.id
            UNION SELECT host FROM attempts WHERE job_id = jobs.id
         ))
    FROM jobs WHERE id = :job_id
""")  # noqa: S608

# Retention removes the lines of jobs that ended long ago, sorted by their ids. Other jobs keep theirs.
_LOGS = text(f"""
    SELECT {_ATTEMPTS}, (SELECT min(id) FROM log_lines WHERE job_id = jobs.id) FROM jobs WHERE id = :job_id
""")  # noqa: S608

# The sum of a hash of each job: a sum needs no sorting.
_STUDIES = """
    SELECT id, revision, ended_at, (
        SELECT sum(hashtextextended(concat_ws('/', {of_job}), 0)) FROM jobs WHERE study_id = studies.id
    ) FROM studies WHERE id = ANY(:ids)
"""
_STATE_OF_JOB = "jobs.id, status, end_reason, paused_at IS NOT NULL"
# A report shows the state and the hosts of jobs that have not ended, and nothing that changes with each step.
_RESULT_OF_JOB = "jobs.id, status, end_reason, attempt, CASE WHEN status = ANY(:terminal) THEN jobs.revision END"


def of_metrics(session: Session, job_id: str) -> str:
    """The version of a job's metrics. Raises `JobNotFound`."""
    rows = _of_metrics(session, [job_id])
    if not rows:
        raise JobNotFound(job_id)
    return str(rows)


def of_jobs_metrics(session: Session, job_ids: Sequence[str]) -> str:
    """The version of the metrics of all these jobs. Jobs that do not exist are left out."""
    return str(_of_metrics(session, job_ids))


def of_samples(session: Session, job_id: str) -> str:
    """The version of a job's utilization. Raises `JobNotFound`."""
    return _of_job(session, _SAMPLES, job_id)


def of_logs(session: Session, job_id: str) -> str:
    """The version of a job's lines. Raises `JobNotFound`."""
    return _of_job(session, _LOGS, job_id)


def of_events(session: Session, job_id: str, *, after: int = 0) -> str:
    """The version of a job's history after an event: a count, because events never change or go away."""
    return str(session.scalar(select(func.count()).where(JobEvent.job_id == job_id, JobEvent.id > after)))


def of_studies(session: Session, study_ids: Sequence[str]) -> Mapping[str, str]:
    """The versions of these studies with their jobs, by id. Studies that do not exist are left out."""
    return _of_studies(session, _STATE_OF_JOB, study_ids)


def of_study(session: Session, study_id: str) -> str:
    """The version of one study. Raises `StudyNotFound`."""
    return _version_of(of_studies(session, [study_id]), study_id)


def of_report(session: Session, study_id: str) -> str:
    """The version of a study's report. Raises `StudyNotFound`."""
    return _version_of(_of_studies(session, _RESULT_OF_JOB, [study_id]), study_id)


def _of_metrics(session: Session, job_ids: Sequence[str]) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in session.execute(_METRICS, {"ids": list(job_ids)})]


def _of_job(session: Session, query: TextClause, job_id: str) -> str:
    row = session.execute(query, {"job_id": job_id}).one_or_none()
    if row is None:
        raise JobNotFound(job_id)
    return str(tuple(row))


def _of_studies(session: Session, of_job: str, study_ids: Sequence[str]) -> Mapping[str, str]:
    query = text(_STUDIES.format(of_job=of_job)).bindparams(bindparam("ids", type_=ARRAY(String)))
    values: dict[str, Any] = {"ids": list(study_ids)}
    if ":terminal" in of_job:
        query = query.bindparams(bindparam("terminal", type_=ARRAY(String)))
        values["terminal"] = sorted(TERMINAL)
    return {row[0]: str(tuple(row[1:])) for row in session.execute(query, values)}


def _version_of(versions: Mapping[str, str], study_id: str) -> str:
    if study_id not in versions:
        raise StudyNotFound(study_id)
    return versions[study_id]
