"""The usage of the past: how attempts are divided into days and months, and that it agrees with the quotas."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select, text, update

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, DeletedAttempt, Job
from jobs.insight.studies.ended import delete_study, lock_ended, move_study
from jobs.lifecycle.deletion import delete_job
from jobs.lifecycle.store import Lease, locked_job
from jobs.model.job_changes import JobChanges
from jobs.model.states import EndReason, Status
from jobs.people import job_changes, projects, usage_history
from jobs.people.project_admission import Applicant
from jobs.people.usage_history import TooMuchUsage, UsageQuery, this_month, usage_in
from jobs.runtime.prices import Prices
from jobs.scheduling.quotas import quotas_of
from jobs.views.usage import Period, UsageKey, UsageReport, UsageRow
from tests.integration.jobs import job_rows
from tests.integration.jobs.writing import change, write

Span = tuple[str, str | None]
PROJECT, USER, HOST, DEVICE = UsageKey
DAY = Period.DAY
PRICES = Prices({"h100": 3.0, "cpu": 0.1})


def at(moment: str) -> datetime:
    return datetime.fromisoformat(moment).replace(tzinfo=UTC)


def share(*devices: str, host: str = "ha") -> dict[str, Any]:
    return {"host": host, "slots": list(range(len(devices))), "devices": list(devices)}


def a_job_with(
    sessions: Sessions, *spans: Span, shares: Sequence[dict[str, Any]] = (share("cpu", "cpu"),), **fields: Any
) -> str:
    """A job that ended, with an attempt from the first to the second moment of each span; None: it still runs."""
    return attempts_of(sessions, job_rows.a_job(sessions, **fields), *spans, shares=shares)


def attempts_of(
    sessions: Sessions, job_id: str, *spans: Span, shares: Sequence[dict[str, Any]] = (share("cpu", "cpu"),)
) -> str:
    """End the job after such attempts. Returns its id."""
    gpus = sum(len(each["slots"]) for each in shares)
    with sessions.begin() as session:
        session.execute(update(Job).where(Job.id == job_id).values(status=Status.FAILED, end_reason=EndReason.BAD_DATA))
        for number, (since, until) in enumerate(spans, 1):
            times = {"created_at": at(since), "ended_at": until and at(until), "lease_expires_at": at(since)}
            session.add(Attempt(job_id=job_id, number=number, host="ha", gpus=gpus, shares=list(shares), **times))
    return job_id


def read(sessions: Sessions, first_day: str, last_day: str, *by: UsageKey, **values: Any) -> UsageReport:
    prices = values.pop("prices", None)
    query = UsageQuery(date.fromisoformat(first_day), date.fromisoformat(last_day), by=by, **values)
    with sessions() as session:
        return usage_in(session, query, prices)


def hours(report: UsageReport) -> dict[str, float]:
    """GPU-hours by period."""
    assert report.total.gpu_hours == pytest.approx(sum(row.gpu_hours for row in report.items))
    return {str(row.period): row.gpu_hours for row in report.items}


def a_project(sessions: Sessions, name: str) -> None:
    write(sessions, projects.create, name)


def test_a_day_and_a_month_have_their_part_of_an_attempt(sessions: Sessions) -> None:
    job_rows.a_job(sessions)  # without an attempt
    nothing = read(sessions, "2025-05-01", "2025-05-03", PROJECT, prices=PRICES)
    assert nothing.items == []
    assert nothing.total.model_dump() == {"gpu_hours": 0, "jobs": 0, "cost": 0}
    assert read(sessions, "0001-01-01", "9999-12-31", PROJECT).total.cost is None
    a_job_with(sessions, ("2024-02-28T22:00", "2024-03-01T06:00"))
    report = read(sessions, "2024-02-01", "2024-03-31", period=DAY)
    assert hours(report) == {"2024-02-28": 2 * 2, "2024-02-29": 2 * 24, "2024-03-01": 2 * 6}
    assert [row.jobs for row in report.items] == [1, 1, 1]
    assert report.total.jobs == 1
    assert hours(read(sessions, "2024-02-01", "2024-03-31")) == {"2024-02-01": 2 * 26, "2024-03-01": 2 * 6}
    assert hours(read(sessions, "2024-02-29", "2024-03-31")) == {"2024-02-01": 2 * 24, "2024-03-01": 2 * 6}


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Pacific/Kiritimati"])
def test_a_change_of_clocks_makes_no_month_longer(sessions: Sessions, zone: str) -> None:
    a_job_with(sessions, ("2025-03-01T00:00", "2025-12-01T00:00"))
    query = UsageQuery(date(2025, 1, 1), date(2025, 12, 31))
    with sessions.begin() as session:
        session.execute(text("SELECT set_config('timezone', :zone, true)"), {"zone": zone})
        of_months = hours(usage_in(session, query, None))
        days = usage_in(session, UsageQuery(date(2025, 3, 1), date(2025, 11, 30), DAY), None)
    lengths = {3: 31, 4: 30, 5: 31, 6: 30, 7: 31, 8: 31, 9: 30, 10: 31, 11: 30}
    assert of_months == {f"2025-{month:02}-01": 2 * 24 * days for month, days in lengths.items()}
    assert [row.gpu_hours for row in days.items] == [2 * 24] * sum(lengths.values())


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        ("2025-05-01T23:00", "2025-05-02T00:00", {"2025-05-01": 2}),  # ends at the border
        ("2025-05-01T00:00", "2025-05-02T00:00", {"2025-05-01": 48}),
        ("2025-05-02T00:00", "2025-05-02T00:00", {}),  # no time at all
        ("2025-05-02T10:00", "2025-05-02T09:00", {}),  # the clock of the database went back
        ("2025-05-01T23:59:59.999999", "2025-05-02T00:00:00.000001", {"2025-05-01": 0, "2025-05-02": 0}),
        ("2025-04-29T00:00", "2025-05-01T00:00", {}),  # before the range
        ("2025-05-04T00:00", "2025-05-05T00:00", {}),  # after it
    ],
)
def test_attempts_at_borders(sessions: Sessions, since: str, until: str, expected: dict[str, float]) -> None:
    a_job_with(sessions, (since, until))
    assert hours(read(sessions, "2025-05-01", "2025-05-03", period=DAY)) == expected


def test_jobs_count_once_in_each_row_and_once_in_the_total(sessions: Sessions) -> None:
    twice = [("2025-05-01T00:00", "2025-05-01T01:00"), ("2025-05-01T02:00", "2025-05-02T01:00")]
    a_job_with(sessions, *twice, shares=[share("cpu"), share("cpu", host="hb")])
    a_job_with(sessions, ("2025-05-01T00:00", "2025-05-01T01:00"), shares=[share("cpu", host="hb")], owner="ada")
    report = read(sessions, "2025-05-01", "2025-05-31", HOST, period=DAY)
    assert [(str(row.period), row.host, row.gpu_hours, row.jobs) for row in report.items] == [
        ("2025-05-01", "ha", 23, 1), ("2025-05-01", "hb", 24, 2),
        ("2025-05-02", "ha", 1, 1), ("2025-05-02", "hb", 1, 1),
    ]  # fmt: skip
    assert (report.total.gpu_hours, report.total.jobs) == (49, 2)


def keys_of(rows: Sequence[UsageRow]) -> list[tuple[Any, ...]]:
    return [(row.project, row.user, row.host, row.device, row.gpu_hours, row.cost) for row in rows]


def test_rows_have_only_the_keys_that_were_asked_for(sessions: Sessions) -> None:
    a_project(sessions, "vision")
    span = ("2025-05-01T00:00", "2025-05-01T01:00")
    a_job_with(sessions, span, shares=[share("NVIDIA H100 NVL", "cpu")], project="vision", owner="ada")
    a_job_with(sessions, span, shares=[share("cpu", host="hb")], owner="ada")

    def rows(*by: UsageKey, **values: Any) -> list[tuple[Any, ...]]:
        return keys_of(read(sessions, "2025-05-01", "2025-05-01", *by, prices=PRICES, **values).items)

    assert rows(PROJECT, USER) == [
        ("default", "ada", None, None, 1, 0.1), ("vision", "ada", None, None, 2, 3.1),
    ]  # fmt: skip
    assert rows(HOST, DEVICE) == [
        (None, None, "ha", "NVIDIA H100 NVL", 1, 3), (None, None, "ha", "cpu", 1, 0.1),
        (None, None, "hb", "cpu", 1, 0.1),
    ]  # fmt: skip
    assert rows(USER, project="vision") == [(None, "ada", None, None, 2, 3.1)]
    assert rows(PROJECT, user="ada") == [("default", None, None, None, 1, 0.1), ("vision", None, None, None, 2, 3.1)]
    assert rows(PROJECT, user="me") == []
    assert rows() == [(None, None, None, None, 3, 3.2)]


def test_a_slot_without_a_price_leaves_its_rows_and_the_total_without_a_cost(sessions: Sessions) -> None:
    span = ("2025-05-01T00:00", "2025-05-01T01:00")
    a_job_with(sessions, span, shares=[share("Tesla T4", "NVIDIA H100 NVL")])
    a_job_with(sessions, span, shares=[share("NVIDIA H100 NVL", host="hb")])
    report = read(sessions, "2025-05-01", "2025-05-01", HOST, prices=PRICES)
    assert [row.cost for row in report.items] == [None, 3]
    assert report.total.cost is None
    both = read(sessions, "2025-05-01", "2025-05-01", HOST, prices=Prices({"h100": 3.0}, default=1.0))
    assert ([row.cost for row in both.items], both.total.cost) == ([4, 3], 7)


def test_attempts_of_earlier_versions_have_the_devices_that_their_slots_have_now(sessions: Sessions) -> None:
    job_rows.a_mixed_host(sessions, "ha", ("NVIDIA H100 NVL", 80), cpus=1)
    shares = [{"host": "ha", "slots": [0, 1]}, {"host": "gone", "slots": [0]}]
    a_job_with(sessions, ("2025-05-01T00:00", "2025-05-01T01:00"), shares=shares)
    report = read(sessions, "2025-05-01", "2025-05-01", DEVICE, prices=Prices({"h100": 3.0, "cpu": 0.1}, default=2.0))
    assert [(row.device, row.gpu_hours, row.cost) for row in report.items] == [
        ("NVIDIA H100 NVL", 1, 3), ("cpu", 1, 0.1), (None, 1, 2),
    ]  # fmt: skip


def test_imported_runs_do_not_count(sessions: Sessions) -> None:
    job_id = a_job_with(sessions, ("2025-05-01T00:00", "2025-05-01T01:00"))
    change(sessions, update(Job).values(run_id="x"))
    assert read(sessions, "2025-05-01", "2025-05-01").total.jobs == 0
    delete(sessions, job_id)
    assert read(sessions, "2025-05-01", "2025-05-01").total.jobs == 0


def delete(sessions: Sessions, job_id: str) -> None:
    with sessions.begin() as session:
        delete_job(session, locked_job(session, job_id))


def move(sessions: Sessions, job_id: str, project: str) -> None:
    with sessions.begin() as session:
        changes = JobChanges.model_validate({"project": project})
        job_changes.change(session, locked_job(session, job_id), changes, by=Applicant("me", is_admin=True))


def test_deleted_and_moved_jobs_stay_in_the_usage(sessions: Sessions) -> None:
    for name in ("vision", "text"):
        a_project(sessions, name)
    spans: list[Span] = [("2025-04-30T23:00", "2025-05-01T01:00"), ("2025-05-01T02:00", "2025-05-01T03:00")]
    shares = [share("NVIDIA H100 NVL"), share("cpu", host="hb")]
    gone, moved, both = (a_job_with(sessions, *spans, shares=shares, owner="ada") for _ in range(3))

    def rows() -> list[list[dict[str, Any]]]:
        return [
            [row.model_dump() for row in read(sessions, "2025-04-01", "2025-05-31", *by, prices=PRICES).items]
            for by in ((PROJECT, USER), (HOST, DEVICE))
        ]

    before = rows()
    assert [row["jobs"] for row in before[0]] == [3, 3]
    move(sessions, moved, "vision")
    move(sessions, moved, "text")
    move(sessions, both, "vision")
    assert rows() == before
    delete(sessions, both)
    delete(sessions, gone)
    assert rows() == before
    with sessions() as session:
        assert set(session.scalars(select(DeletedAttempt.job_id))) == {both, gone}
    assert read(sessions, "2025-05-01", "2025-05-31", project="vision").items == []


def test_deleted_and_moved_studies_stay_in_the_usage(sessions: Sessions) -> None:
    a_project(sessions, "vision")
    studies = dict(job_rows.a_study(sessions, jobs=2) for _ in range(2))
    for job_id in (job_id for of_study in studies.values() for job_id in of_study):
        attempts_of(sessions, job_id, ("2025-04-30T23:00", "2025-05-01T01:00"))
    before = read(sessions, "2025-04-01", "2025-05-31", PROJECT, USER)
    assert before.total.jobs == 4
    for study_id in studies:
        with sessions.begin() as session:
            study, jobs = lock_ended(session, study_id, then="it can be moved")
            move_study(session, study, jobs, "vision", by=Applicant("me", is_admin=True))
    assert read(sessions, "2025-04-01", "2025-05-31", PROJECT, USER) == before
    with sessions.begin() as session:
        delete_study(session, *lock_ended(session, next(iter(studies)), then="it can be deleted"))
    assert read(sessions, "2025-04-01", "2025-05-31", PROJECT, USER) == before


def live_attempt(sessions: Sessions, since: datetime, **fields: Any) -> Lease:
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions, **fields))
    change(sessions, update(Attempt).where(Attempt.id == lease.attempt_id).values(created_at=since))
    return lease


def test_a_running_attempt_counts_up_to_now(sessions: Sessions) -> None:
    job_rows.a_host(sessions)
    now = datetime.now(UTC)
    live_attempt(sessions, now - timedelta(hours=50))
    report = read(sessions, str((now - timedelta(days=3)).date()), str(now.date() + timedelta(days=9)), period=DAY)
    assert report.total.gpu_hours == pytest.approx(100, abs=0.1)
    assert len(report.items) in (3, 4)
    assert max(row.period for row in report.items) <= datetime.now(UTC).date()


@pytest.mark.parametrize("days", [0, 40])
def test_a_months_usage_is_that_of_the_projects_quota(sessions: Sessions, days: int) -> None:
    """Of running, ended, moved and deleted jobs, some of which began before the month."""
    a_project(sessions, "vision")
    a_project(sessions, "text")
    for name in "abcd":
        job_rows.a_host(sessions, name)
    since = datetime.now(UTC) - timedelta(days=days, hours=1)
    held = []
    for name in "abcd":
        lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions, project="vision"), host=name)
        held.append(lease)
    change(sessions, update(Attempt).values(created_at=since))
    _, *ending = held
    for lease in ending:
        job_rows.end_attempt(sessions, lease)
    _, moved, gone = ending
    move(sessions, moved.job_id, "text")
    delete(sessions, gone.job_id)
    with sessions() as session:  # in one transaction, so that it is the same moment for both
        quotas = quotas_of(session, ["vision", "text"])
        usage = {name: usage_in(session, this_month(session, name), None).total for name in quotas}
    assert usage["vision"].gpu_hours == pytest.approx(quotas["vision"].gpu_hours, abs=1e-5)
    assert usage["vision"].gpu_hours > 0
    assert usage["vision"].jobs == 4
    assert usage["text"].gpu_hours == quotas["text"].gpu_hours == 0


def test_an_answer_that_would_be_too_long_is_refused(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    a_job_with(sessions, ("2025-05-01T00:00", "2025-05-08T00:00"))
    monkeypatch.setattr(usage_history, "MOST_ROWS", 7)
    assert len(read(sessions, "2025-05-01", "2025-05-31", period=DAY).items) == 7
    monkeypatch.setattr(usage_history, "MOST_ROWS", 6)
    with pytest.raises(TooMuchUsage, match="more than 6 rows"):
        read(sessions, "2025-05-01", "2025-05-31", period=DAY)
