"""Alerts of scripts and of rules: stored once, whoever reads them, in the history, on the job, and for webhooks."""

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from jobs.db.engine import Sessions
from jobs.db.tables import JobEvent
from jobs.intake.intake import Intake
from jobs.lifecycle.deliveries import JOB_ALERT, JOB_ENDED
from jobs.lifecycle.leases import StaleLease
from jobs.lifecycle.store import Lease
from jobs.model.alerts import MOST_A_MINUTE
from jobs.model.records import Alerted, EpochEnded, Reported, ScriptSummary, Summarized
from jobs.model.states import EndReason, EventKind
from tests.integration.jobs import code_rows, job_rows
from tests.integration.jobs.intake import rank_files as ranks
from tests.integration.jobs.test_outbox import a_webhook, messages
from worker.attempt.leftovers import store_leftovers
from worker.attempt.paths import AttemptPaths


def said(title: str, at: float = 100.0, **fields: Any) -> Alerted:
    return Alerted(at=at, level=fields.pop("level", "info"), title=title, **fields)


def stored(sessions: Sessions) -> list[dict[str, Any]]:
    with sessions() as session:
        query = select(JobEvent.data).where(JobEvent.kind == EventKind.ALERT).order_by(JobEvent.id)
        return list(session.scalars(query))


def test_alerts_of_all_ranks_are_events_figures_of_the_job_and_messages(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake
) -> None:
    hook = a_webhook(sessions, events=[JOB_ALERT])
    a_webhook(sessions, owner="other", events=[JOB_ALERT])
    a_webhook(sessions, events=[JOB_ENDED])
    hostile = "<!channel> \x00 [x](https://evil.example)\nBcc: a@b"
    ranks.write(paths, 0, said("slow", text=hostile, level="error"))
    ranks.write(paths, 1, said("slow", at=100.5, wait_s=60.0), said("other", at=101.0))
    intake.store_new()
    first = {"level": "error", "title": "slow", "text": hostile.replace("\x00", "\ufffd"), "rank": 0}
    second = {"level": "info", "title": "other", "text": "", "rank": 1}
    assert stored(sessions) == [first, second]
    job = job_rows.the_job(sessions, lease.job_id)
    assert (job.alerts, job.last_alert) == (2, {"at": "1970-01-01T00:01:41+00:00", **second})
    sent = messages(sessions)
    assert [(one["event"], one["webhook"], one["job"]["id"]) for one in sent] == [(JOB_ALERT, hook, lease.job_id)] * 2
    assert [one["alert"] for one in sent] == [
        {"at": "1970-01-01T00:01:40+00:00", "attempt": 1, **first},
        {"at": "1970-01-01T00:01:41+00:00", "attempt": 1, **second},
    ]
    assert ranks.log_lines(sessions) == [
        (0, "hora: alert: slow: <!channel> \ufffd [x](https://evil.example) Bcc: a@b"),
        (1, "hora: alert: other"),
    ]
    assert intake.steps_seen == 0  # an alert is no sign of life


def test_a_flood_is_bounded_over_batches_and_attempts(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake
) -> None:
    for part in range(4):
        ranks.write(paths, part % 2, *(said(f"n{part} {number}") for number in range(5)))
        intake.store_new()
    titles = [one["title"] for one in stored(sessions)]
    assert len(titles) == MOST_A_MINUTE + 1
    assert [one.get("left_out", False) for one in stored(sessions)] == [False] * MOST_A_MINUTE + [True]
    ranks.write(paths, 0, said("a minute later", at=160.0))
    Intake(sessions, lease, paths, ranks=2).store_new()  # another reader knows what was stored
    assert [one["title"] for one in stored(sessions)][MOST_A_MINUTE + 1 :] == ["a minute later"]


def epoch_ended(epoch: int, val_loss: float) -> EpochEnded:
    return EpochEnded(
        at=100.0 + epoch, epoch=epoch, step=10 * epoch, wall_s=1.0, samples_per_s=9.0, learning_rate=0.1,
        metrics={"val_loss": val_loss},
    )  # fmt: skip


def test_a_rule_counts_epochs_in_a_row_over_readers_and_speaks_once_in_a_job(
    sessions: Sessions, tmp_path: Path
) -> None:
    rules = [{"when": "val_loss > 3", "in_a_row": 2, "level": "error"}, {"when": "samples_per_s < 10"}]
    lease, paths = ranks.an_attempt_with(sessions, tmp_path, alerts=rules)
    ranks.write(paths, 0, epoch_ended(1, 4.0), epoch_ended(2, 2.0), epoch_ended(3, math.nan), epoch_ended(4, 4.0))
    Intake(sessions, lease, paths, ranks=2).store_new()
    slow = {"level": "warning", "title": "samples_per_s < 10", "text": "samples_per_s is 9 in epoch 1", "rule": 1}
    assert stored(sessions) == [slow | {"epoch": 1}]
    ranks.write(paths, 0, epoch_ended(5, 4.2), epoch_ended(6, 4.0), epoch_ended(7, 1.0))
    second = Intake(sessions, lease, paths, ranks=2)  # the first one was killed
    second.store_new()
    high = {
        "level": "error",
        "title": "val_loss > 3, 2 times in a row",
        "text": "val_loss is 4.2 in epoch 5",
        "rule": 0,
    }
    assert stored(sessions)[1:] == [high | {"epoch": 5}]
    ranks.write(paths, 0, epoch_ended(8, 4.0), epoch_ended(9, 4.0))
    second.store_new()
    Intake(sessions, lease, paths, ranks=2).drain()
    assert (len(stored(sessions)), job_rows.the_job(sessions, lease.job_id).alerts) == (2, 2)


def test_a_rule_finds_a_line_of_any_rank_once(sessions: Sessions, tmp_path: Path) -> None:
    lease, paths = ranks.an_attempt_with(sessions, tmp_path, alerts=[{"log": "CUDA*error|NaN"}, {"log": "never"}])
    ranks.write_log(paths, 0, b"cuda error\n\x1b[31mCUDA out of memory\x00\n")
    ranks.write_log(paths, 1, b"step 1: NaN\n" * 3)
    intake = Intake(sessions, lease, paths, ranks=2)
    intake.store_new()
    ranks.write_log(paths, 0, b"CUDA error\n")
    intake.store_new()
    found = {"level": "warning", "title": "The log has CUDA*error|NaN", "text": "step 1: NaN", "rank": 1, "rule": 0}
    assert stored(sessions) == [found]


def test_a_rule_of_a_script_sees_steps_of_rank_0_and_says_at_the_end_what_it_never_saw(
    sessions: Sessions, tmp_path: Path
) -> None:
    script = {"code": code_rows.an_archive(sessions, b"a"), "command": ["python", "train.py"]}
    rules = [{"when": "loss = nan"}, {"when": "val_los > 1"}, {"when": "step_time_s > 9"}]
    lease, paths = ranks.an_attempt_with(sessions, tmp_path, **script, alerts=rules)
    ranks.write(paths, 1, Reported(at=1.0, step=1, metrics={"loss": math.nan}))
    intake = Intake(sessions, lease, paths, ranks=2)
    intake.store_new()
    assert stored(sessions) == []
    ranks.write(paths, 0, Reported(at=1.0, step=7, metrics={"loss": math.inf, "val_loss": 1.0}))
    ranks.write(paths, 0, Summarized(at=2.0, summary=ScriptSummary(wall_s=1.0, setup_s=1.0)))
    intake.store_new()
    (alert,) = stored(sessions)
    assert (alert["text"], alert["step"]) == ("loss is inf at step 7", 7)
    assert ranks.log_lines(sessions) == [
        (0, "hora: alerts.1 waits for the metric val_los, which was never reported; did you mean val_loss?"),
        (0, "hora: alert: loss = nan: loss is inf at step 7"),
    ]


def test_what_a_fenced_attempt_left_is_stored_once_by_the_next_one_and_rules_count_anew_there(
    sessions: Sessions, tmp_path: Path
) -> None:
    lease, paths = ranks.an_attempt_with(
        sessions, tmp_path, alerts=[{"when": "val_loss > 3", "in_a_row": 2}, {"log": "NaN"}]
    )
    ranks.write(paths, 0, epoch_ended(1, 4.0), said("before"))
    first = Intake(sessions, lease, paths, ranks=2)
    first.store_new()
    job_rows.end_attempt(sessions, lease, EndReason.LEASE_EXPIRED)
    ranks.write(paths, 0, said("late"))
    ranks.write_log(paths, 0, b"NaN\n")
    with pytest.raises(StaleLease):
        first.store_new()
    later = ranks.next_attempt(sessions, lease)
    for _ in range(2):
        store_leftovers(sessions, later, tmp_path, meanwhile=lambda: None)
    paths = ranks.paths_for(later, tmp_path)
    intake = Intake(sessions, later, paths, ranks=2)
    ranks.write_log(paths, 0, b"NaN\n")
    ranks.write(paths, 0, epoch_ended(2, 4.0))
    intake.store_new()
    titles = [one["title"] for one in stored(sessions)]
    assert (titles[0], sorted(titles[1:])) == ("before", ["The log has NaN", "late"])
    ranks.write(paths, 0, epoch_ended(3, 4.0))
    intake.store_new()
    assert [one["rule"] for one in stored(sessions) if "rule" in one] == [1, 0]
    with sessions() as session:
        query = select(JobEvent.attempt).where(JobEvent.kind == EventKind.ALERT).order_by(JobEvent.id)
        assert session.scalars(query).all() == [1, 1, 1, 2]
    assert job_rows.the_job(sessions, lease.job_id).alerts == 4


def test_an_imported_run_alerts_nobody_of_its_past(sessions: Sessions, tmp_path: Path) -> None:
    lease, paths = ranks.an_attempt_with(sessions, tmp_path, alerts=[{"when": "val_loss > 3"}, {"log": "NaN"}])
    ranks.write(paths, 0, epoch_ended(1, 4.0))
    ranks.write_log(paths, 0, b"NaN\n")
    Intake(sessions, lease, paths, ranks=2, printed_at=datetime.now(UTC)).drain()
    assert stored(sessions) == []
