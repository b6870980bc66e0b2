"""changes of submitted jobs, and the ceilings of projects for priorities"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0016"
down_revision: str | None = "0015"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_KINDS = [
    "submitted", "placed", "launched", "rank_started", "first_step", "epoch_ended", "checkpoint_saved", "attempt_ended",
    "requeued", "cancel_requested", "pause_requested", "resumed", "preempt_requested", "ended", "checkpoint_skipped",
    "out_of_space", "checkpoint_copied", "checkpoint_fetched", "copies_behind", "waits_for_files",
]  # fmt: skip
_NEW_KIND = "changed"


def upgrade() -> None:
    op.add_column("projects", sa.Column("max_priority", sa.Integer(), nullable=True))
    _check_kinds([*_KINDS, _NEW_KIND])
    # The texts of the trigger `write_job_texts`, which runs for new jobs.
    op.execute("""
        CREATE FUNCTION rewrite_job_texts() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            UPDATE job_texts SET text = lower(concat_ws(E'\\n', NEW.id, NEW.name, NEW.owner,
                NEW.spec #>> '{dataset,source}', NEW.spec #>> '{model,name}',
                (SELECT string_agg(key || E'\\n' || value, E'\\n') FROM jsonb_each_text(NEW.labels))))
            WHERE job_id = NEW.id;
            RETURN NULL;
        END $$
    """)
    op.execute("""
        CREATE TRIGGER rewrite_job_texts AFTER UPDATE OF name, labels ON jobs
        FOR EACH ROW EXECUTE FUNCTION rewrite_job_texts()
    """)


def downgrade() -> None:
    op.execute("DROP TRIGGER rewrite_job_texts ON jobs")
    op.execute("DROP FUNCTION rewrite_job_texts()")
    kind = sa.column("kind", sa.Text())
    op.execute(sa.delete(sa.table("job_events", kind)).where(kind == _NEW_KIND))
    _check_kinds(_KINDS)
    op.drop_column("projects", "max_priority")


def _check_kinds(kinds: list[str]) -> None:
    """Allow these kinds of events, and no others."""
    op.drop_constraint(op.f("ck_job_events_eventkind"), "job_events", type_="check")
    allowed = ", ".join(f"'{kind}'" for kind in kinds)
    op.create_check_constraint(op.f("ck_job_events_eventkind"), "job_events", f"kind IN ({allowed})")
