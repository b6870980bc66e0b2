"""A witness inside the database: triggers that note every forbidden change of a row, whoever makes it.

It does not know the code that writes. It only sees the rows before and after a change. It refuses no change, so the
service behaves as always. The notes are read at the end of a round.
"""

from collections.abc import Container, Iterator

import psycopg

from jobs.model.states import NEXT, TERMINAL

# Events that the ranks of an attempt report. Events about the attempt's end may come after the end.
_REPORTED_BY_RANKS = (
    "fresh.kind IN ('rank_started', 'first_step', 'epoch_ended', 'checkpoint_saved', 'checkpoint_skipped', 'alert')"
)
_SERIES = {
    "metric_points": "true", "metric_blocks": "true", "log_lines": "true", "samples": "true",
    "job_events": _REPORTED_BY_RANKS,
}  # fmt: skip

_TABLE = """
CREATE TABLE chaos_witness (at timestamptz NOT NULL DEFAULT clock_timestamp(), what text NOT NULL);
CREATE FUNCTION chaos_note(what text) RETURNS void LANGUAGE sql AS
  'INSERT INTO chaos_witness (what) VALUES (what)';
-- The next attempt of a job may store what the one before left in its files. Nobody else may.
CREATE FUNCTION chaos_has_heir(job text, earlier int) RETURNS boolean LANGUAGE sql AS
  'SELECT EXISTS (SELECT FROM attempts WHERE job_id = job AND number > earlier AND ended_at IS NULL)';
"""

_JOBS = """
CREATE FUNCTION chaos_jobs() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF TG_OP = 'DELETE' THEN
    PERFORM chaos_note(format('job %s was deleted', OLD.id));
    RETURN OLD;
  END IF;
  IF OLD.status <> NEW.status AND NOT (OLD.status || ' ' || NEW.status = ANY (TG_ARGV[0]::text[])) THEN
    PERFORM chaos_note(format('job %s went from %s to %s', OLD.id, OLD.status, NEW.status));
  END IF;
  IF OLD.status <> NEW.status AND NEW.status IN ('succeeded', 'failed') AND NEW.cancel_requested_at IS NOT NULL THEN
    PERFORM chaos_note(format('job %s was to be cancelled and is %s', NEW.id, NEW.status));
  END IF;
  IF OLD.status <> NEW.status AND NEW.status = 'launching'
     AND (NEW.cancel_requested_at IS NOT NULL OR NEW.paused_at IS NOT NULL) THEN
    PERFORM chaos_note(format('job %s was placed though it was cancelled or paused', NEW.id));
  END IF;
  IF OLD.cancel_requested_at IS NOT NULL AND NEW.cancel_requested_at IS NULL THEN
    PERFORM chaos_note(format('the cancel of job %s was taken back', NEW.id));
  END IF;
  IF NEW.revision < OLD.revision OR NEW.attempt NOT IN (OLD.attempt, OLD.attempt + 1) THEN
    PERFORM chaos_note(format('job %s went back, or skipped an attempt', NEW.id));
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER chaos_jobs AFTER UPDATE OR DELETE ON jobs FOR EACH ROW EXECUTE FUNCTION chaos_jobs('{moves}');
"""

_ATTEMPTS = """
CREATE FUNCTION chaos_attempts() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF OLD.ended_at IS NOT NULL AND (NEW.ended_at, NEW.end_reason, NEW.error, NEW.token)
     IS DISTINCT FROM (OLD.ended_at, OLD.end_reason, OLD.error, OLD.token) THEN
    PERFORM chaos_note(format('attempt %s.%s was ended twice', OLD.job_id, OLD.number));
  END IF;
  IF OLD.ended_at IS NOT NULL AND (NEW.offsets, NEW.resumed_step) IS DISTINCT FROM (OLD.offsets, OLD.resumed_step)
     AND NOT chaos_has_heir(OLD.job_id, OLD.number) THEN
    PERFORM chaos_note(format('attempt %s.%s was changed after its end', OLD.job_id, OLD.number));
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER chaos_attempts AFTER UPDATE ON attempts FOR EACH ROW EXECUTE FUNCTION chaos_attempts();
"""

_SLOTS = """
CREATE FUNCTION chaos_slots() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE before attempts; DECLARE after attempts; BEGIN
  SELECT * INTO before FROM attempts WHERE id = OLD.attempt_id;
  SELECT * INTO after FROM attempts WHERE id = NEW.attempt_id;
  IF before.id IS NOT NULL AND after.id IS NOT NULL THEN
    PERFORM chaos_note(format('slot %s of %s was leased to %s.%s while %s.%s had it',
      OLD.index, OLD.host, after.job_id, after.number, before.job_id, before.number));
  END IF;
  IF before.id IS NOT NULL AND before.ended_at IS NULL THEN
    PERFORM chaos_note(format('slot %s of %s was taken from %s.%s, which lives',
      OLD.index, OLD.host, before.job_id, before.number));
  END IF;
  IF after.id IS NOT NULL AND (after.ended_at IS NOT NULL OR NEW.quarantined_at IS NOT NULL) THEN
    PERFORM chaos_note(format('slot %s of %s was leased to %s.%s, which has ended, or in quarantine',
      OLD.index, OLD.host, after.job_id, after.number));
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER chaos_slots AFTER UPDATE ON slots FOR EACH ROW
  WHEN (OLD.attempt_id IS DISTINCT FROM NEW.attempt_id) EXECUTE FUNCTION chaos_slots();
"""

# A writer must lock the attempt's row first. Then it can never write after the attempt's end; without the lock it can.
_LATE = """
CREATE FUNCTION chaos_late_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  PERFORM chaos_note(format('%s rows of {table} were written for %s.%s after its end', late.rows, job_id, number))
    FROM (SELECT count(*) AS rows, a.job_id, a.number FROM fresh
          JOIN attempts a ON a.job_id = fresh.job_id AND a.number = fresh.attempt
          WHERE a.ended_at IS NOT NULL AND {condition} AND NOT chaos_has_heir(a.job_id, a.number)
          GROUP BY a.job_id, a.number) late;
  RETURN NULL;
END $$;
CREATE TRIGGER chaos_late AFTER INSERT ON {table} REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION chaos_late_{table}();
"""


def statements() -> Iterator[str]:
    """The statements that create the witness, in sequence."""
    moves = ",".join(f'"{status} {to}"' for status, ends in NEXT.items() for to in ends)
    yield _TABLE
    yield _JOBS.replace("{moves}", f"{{{moves}}}")
    yield _ATTEMPTS
    yield _SLOTS
    for table, condition in _SERIES.items():
        yield _LATE.format(table=table, condition=condition)


def call_witness(connection: psycopg.Connection) -> None:
    """Create the witness in a database that has all tables. It watches from the commit on."""
    for statement in statements():
        connection.execute(statement.encode())


def notes_of(connection: psycopg.Connection) -> list[str]:
    """The notes of the witness, oldest first."""
    rows = connection.execute("SELECT at, what FROM chaos_witness ORDER BY at").fetchall()
    return [f"{at:%H:%M:%S.%f} {what}" for at, what in rows]


def late_points(connection: psycopg.Connection, undated: Container[tuple[str, int]] = ()) -> list[str]:
    """Attempts that have points which a rank wrote after the attempt's end. The times of `undated` say nothing."""
    rows = connection.execute(
        "SELECT a.job_id, a.number, count(*) FROM metric_points p "
        "JOIN attempts a ON a.job_id = p.job_id AND a.number = p.attempt WHERE p.at > a.ended_at GROUP BY 1, 2"
    ).fetchall()
    return [
        f"{count} points of {job}.{number} are younger than its end"
        for job, number, count in rows
        if (job, number) not in undated
    ]


def unfinished(connection: psycopg.Connection) -> list[str]:
    """Attempts that are live although their job is over or queued."""
    ended = [str(status) for status in TERMINAL]
    rows = connection.execute(
        "SELECT j.id, a.number, j.status FROM jobs j JOIN attempts a ON a.job_id = j.id "
        "WHERE a.ended_at IS NULL AND (j.status = ANY (%s) OR j.status = 'queued')",
        (ended,),
    ).fetchall()
    return [f"job {job} is {status}, and its attempt {number} lives" for job, number, status in rows]
