"""people, projects, registered datasets, webhooks and mirrors"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    now = sa.text("now()")
    timestamp = sa.DateTime(timezone=True)
    jsonb = postgresql.JSONB(astext_type=sa.Text())
    op.create_table(
        "audit_entries",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("at", timestamp, server_default=now, nullable=False),
        sa.Column("actor", sa.String(128), nullable=False),
        sa.Column("token_id", sa.String(32), nullable=True),
        sa.Column("action", sa.String(64), nullable=False),
        sa.Column("subject", sa.String(255), nullable=True),
        sa.Column("request_id", sa.String(64), nullable=True),
        sa.Column("address", sa.String(64), nullable=True),
        sa.Column("data", jsonb, server_default=sa.text("'{}'"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_entries")),
    )
    op.create_index("ix_audit_entries_at", "audit_entries", ["at", "id"], unique=False)
    for column in ("actor", "action", "subject"):
        op.create_index(f"ix_audit_entries_{column}", "audit_entries", [column, "at", "id"], unique=False)
    op.create_table(
        "projects",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("description", sa.Text(), server_default="", nullable=False),
        sa.Column("is_open", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("max_slots", sa.Integer(), nullable=True),
        sa.Column("max_queued", sa.Integer(), nullable=True),
        sa.Column("max_gpu_hours", sa.Float(precision=53), nullable=True),
        sa.Column("created_at", timestamp, server_default=now, nullable=False),
        sa.Column("archived_at", timestamp, nullable=True),
        sa.Column("revision", sa.BigInteger(), server_default="1", nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_projects")),
    )
    op.create_table(
        "uploads",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("filename", sa.String(255), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("received_bytes", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("sha256", sa.String(64), nullable=True),
        sa.Column("owner", sa.String(128), nullable=False),
        sa.Column("created_at", timestamp, server_default=now, nullable=False),
        sa.Column("touched_at", timestamp, server_default=now, nullable=False),
        sa.Column("completed_at", timestamp, nullable=True),
        sa.Column("removed_at", timestamp, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_uploads")),
    )
    op.create_table(
        "users",
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("created_at", timestamp, server_default=now, nullable=False),
        sa.Column("disabled_at", timestamp, nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_users")),
    )
    op.create_table(
        "dataset_versions",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), server_default="", nullable=False),
        sa.Column("options", jsonb, nullable=False),
        sa.Column("status", sa.String(16), server_default="validating", nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("facts", jsonb, nullable=True),
        sa.Column("fingerprint", sa.String(64), nullable=True),
        sa.Column("upload_id", sa.String(32), nullable=True),
        sa.Column("created_by", sa.String(128), nullable=False),
        sa.Column("created_at", timestamp, server_default=now, nullable=False),
        sa.Column("validated_at", timestamp, nullable=True),
        sa.Column("claimed_by", sa.String(255), nullable=True),
        sa.Column("claimed_until", timestamp, nullable=True),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("unseen_by", postgresql.ARRAY(sa.String(255)), server_default="{}", nullable=False),
        sa.Column("idempotency_key", sa.String(255), nullable=True),
        sa.Column("request_sha256", sa.String(64), nullable=True),
        sa.Column("deleted_at", timestamp, nullable=True),
        sa.Column("revision", sa.BigInteger(), server_default="1", nullable=False),
        sa.CheckConstraint("status IN ('validating', 'ready', 'invalid')", name=op.f("ck_dataset_versions_status")),
        sa.ForeignKeyConstraint(["upload_id"], ["uploads.id"], name=op.f("fk_dataset_versions_upload_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_dataset_versions")),
        sa.UniqueConstraint(
            "created_by", "idempotency_key", name=op.f("uq_dataset_versions_created_by_idempotency_key")
        ),
        sa.UniqueConstraint("name", "version", name=op.f("uq_dataset_versions_name_version")),
    )
    op.create_index(
        "ix_dataset_versions_newest", "dataset_versions", ["name", sa.literal_column("version DESC")], unique=False
    )
    op.create_index(
        "ix_dataset_versions_upload",
        "dataset_versions",
        ["upload_id"],
        unique=False,
        postgresql_where=sa.text("upload_id IS NOT NULL"),
    )
    op.create_index(
        "ix_uploads_open",
        "uploads",
        ["owner", "created_at"],
        unique=False,
        postgresql_where=sa.text("removed_at IS NULL"),
    )
    op.create_table(
        "project_members",
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("user_name", sa.String(128), nullable=False),
        sa.Column("added_at", timestamp, server_default=now, nullable=False),
        sa.ForeignKeyConstraint(
            ["project"], ["projects.name"], name=op.f("fk_project_members_project"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["user_name"], ["users.name"], name=op.f("fk_project_members_user_name"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("project", "user_name", name=op.f("pk_project_members")),
    )
    op.create_table(
        "project_usage",
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("month", sa.Date(), nullable=False),
        sa.Column("slot_seconds", sa.Float(precision=53), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"], ["projects.name"], name=op.f("fk_project_usage_project"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("project", "month", name=op.f("pk_project_usage")),
    )
    op.create_table(
        "webhooks",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("owner", sa.String(128), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("events", postgresql.ARRAY(sa.String(32)), nullable=False),
        sa.Column("project", sa.String(64), nullable=True),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("created_at", timestamp, server_default=now, nullable=False),
        sa.Column("disabled_at", timestamp, nullable=True),
        sa.Column("deleted_at", timestamp, nullable=True),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name=op.f("fk_webhooks_project")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhooks")),
    )
    op.create_index(
        "ix_webhooks_owner", "webhooks", ["owner"], unique=False, postgresql_where=sa.text("deleted_at IS NULL")
    )
    op.create_index(
        "ix_webhooks_project", "webhooks", ["project"], unique=False, postgresql_where=sa.text("deleted_at IS NULL")
    )
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("webhook_id", sa.String(32), nullable=False),
        sa.Column("event", sa.String(32), nullable=False),
        sa.Column("subject_id", sa.String(32), nullable=False),
        sa.Column("payload", jsonb, nullable=True),
        sa.Column("created_at", timestamp, server_default=now, nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("next_at", timestamp, server_default=now, nullable=True),
        sa.Column("delivered_at", timestamp, nullable=True),
        sa.Column("status_code", sa.Integer(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["webhook_id"], ["webhooks.id"], name=op.f("fk_webhook_deliveries_webhook_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_deliveries")),
    )
    op.create_index(
        "ix_webhook_deliveries_due",
        "webhook_deliveries",
        ["next_at"],
        unique=False,
        postgresql_where=sa.text("next_at IS NOT NULL"),
    )
    op.create_index("ix_webhook_deliveries_webhook", "webhook_deliveries", ["webhook_id", "id"], unique=False)
    op.create_index("ix_webhook_deliveries_created", "webhook_deliveries", ["created_at"], unique=False)
    op.create_index(
        "ix_webhook_deliveries_failed",
        "webhook_deliveries",
        ["id"],
        unique=False,
        postgresql_where=sa.text("next_at IS NULL AND delivered_at IS NULL"),
    )
    op.create_table(
        "mirrors",
        sa.Column("job_id", sa.String(32), nullable=False),
        sa.Column("run_id", sa.String(64), nullable=True),
        sa.Column("state", jsonb, server_default=sa.text("'{}'"), nullable=False),
        sa.Column("done_at", timestamp, nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("touched_at", timestamp, server_default=now, nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_mirrors_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_mirrors")),
    )
    op.create_index(
        "ix_mirrors_open", "mirrors", ["touched_at"], unique=False, postgresql_where=sa.text("done_at IS NULL")
    )
    _extend_tables()
    _carry_over()


def _extend_tables() -> None:
    """Columns and indices of tables that are there already."""
    timestamp = sa.DateTime(timezone=True)
    jsonb = postgresql.JSONB(astext_type=sa.Text())
    op.execute("INSERT INTO projects (name, description) VALUES ('default', 'What belongs to no other project')")
    op.add_column("jobs", sa.Column("project", sa.String(64), server_default="default", nullable=False))
    op.add_column("jobs", sa.Column("dataset_ref", jsonb, nullable=True))
    op.add_column("jobs", sa.Column("artifacts_removed_at", timestamp, nullable=True))
    op.create_index("ix_jobs_name", "jobs", ["name", "created_at", "id"], unique=False)
    op.create_index("ix_jobs_priority", "jobs", ["priority", "created_at", "id"], unique=False)
    for name, column in (("ix_jobs_started", "started_at"), ("ix_jobs_ended", "ended_at")):
        not_yet: sa.ColumnClause[str] = sa.literal_column(f"coalesce({column}, 'infinity'::timestamptz)")
        op.create_index(name, "jobs", [not_yet, "created_at", "id"], unique=False)
    op.create_index(
        "ix_jobs_paused",
        "jobs",
        ["created_at", "id"],
        unique=False,
        postgresql_where=sa.text("paused_at IS NOT NULL"),
    )
    op.create_index("ix_idempotency_keys_created_at", "idempotency_keys", ["created_at"], unique=False)
    op.create_index(
        "ix_jobs_owner",
        "jobs",
        ["owner", sa.literal_column("created_at DESC"), sa.literal_column("id DESC")],
        unique=False,
    )
    op.create_index(
        "ix_jobs_project",
        "jobs",
        ["project", sa.literal_column("created_at DESC"), sa.literal_column("id DESC")],
        unique=False,
    )
    op.create_index(
        "ix_jobs_with_artifacts",
        "jobs",
        ["ended_at"],
        unique=False,
        postgresql_where=sa.text("ended_at IS NOT NULL AND artifacts_removed_at IS NULL"),
    )
    op.create_foreign_key(op.f("fk_jobs_project"), "jobs", "projects", ["project"], ["name"])
    op.add_column("studies", sa.Column("project", sa.String(64), server_default="default", nullable=False))
    op.add_column("studies", sa.Column("ended_at", timestamp, nullable=True))
    op.create_index(
        "ix_studies_going_on", "studies", ["id"], unique=False, postgresql_where=sa.text("ended_at IS NULL")
    )
    op.create_foreign_key(op.f("fk_studies_project"), "studies", "projects", ["project"], ["name"])


def _carry_over() -> None:
    """What earlier versions knew in other words; and who is told of changes."""
    timestamp = sa.DateTime(timezone=True)
    # What ended attempts held, as `jobs.scheduling.quotas.charge` adds it up from now on.
    op.execute(
        "INSERT INTO project_usage (project, month, slot_seconds) SELECT 'default', month::date,"
        " sum(gpus * extract(epoch FROM least(until, month + interval '1 month') - greatest(since, month)))"
        " FROM (SELECT gpus, created_at AT TIME ZONE 'UTC' AS since, ended_at AT TIME ZONE 'UTC' AS until"
        " FROM attempts WHERE ended_at > created_at) AS held,"
        " generate_series(date_trunc('month', since), until, interval '1 month') AS month GROUP BY month"
    )
    # Until now a token's name said whose it is, and every token could do everything.
    op.execute(
        "INSERT INTO users (name) SELECT name FROM tokens UNION SELECT owner FROM jobs UNION SELECT owner FROM studies"
    )
    op.add_column("tokens", sa.Column("id", sa.String(32), nullable=True))
    op.add_column("tokens", sa.Column("kind", sa.String(8), server_default="bearer", nullable=False))
    op.add_column("tokens", sa.Column("user_name", sa.String(128), nullable=True))
    op.add_column("tokens", sa.Column("scope", sa.String(8), nullable=True))
    op.add_column("tokens", sa.Column("rate_limit_per_s", sa.Float(precision=53), nullable=True))
    op.add_column("tokens", sa.Column("created_by", sa.String(128), nullable=True))
    op.add_column("tokens", sa.Column("expires_at", timestamp, nullable=True))
    op.add_column("tokens", sa.Column("last_used_at", timestamp, nullable=True))
    op.execute("UPDATE tokens SET id = left(md5(sha256), 12), user_name = name, scope = 'admin'")
    for column, length in (("id", 32), ("user_name", 128), ("scope", 8)):
        op.alter_column("tokens", column, existing_type=sa.String(length), nullable=False)
    op.create_check_constraint(op.f("ck_tokens_kind"), "tokens", "kind IN ('bearer', 'session', 'login')")
    op.create_check_constraint(op.f("ck_tokens_scope"), "tokens", "scope IN ('read', 'submit', 'admin')")
    op.create_index("ix_tokens_user", "tokens", ["user_name"], unique=False)
    op.create_unique_constraint(op.f("uq_tokens_id"), "tokens", ["id"])
    op.create_foreign_key(op.f("fk_tokens_user_name"), "tokens", "users", ["user_name"], ["name"])
    # Once a statement, whatever many rows it adds. A payload has at most 7999 bytes, and an id 32.
    op.execute("""
        CREATE FUNCTION tell_of_history() RETURNS trigger LANGUAGE plpgsql AS $$
        DECLARE
            ids text[] := ARRAY(SELECT DISTINCT job_id FROM added LIMIT 201);
        BEGIN
            PERFORM pg_notify('hora_jobs', CASE WHEN cardinality(ids) > 200 THEN '*' ELSE array_to_string(ids, ' ') END);
            RETURN NULL;
        END $$
    """)
    op.execute("""
        CREATE TRIGGER tell_of_history AFTER INSERT ON job_events REFERENCING NEW TABLE AS added
        FOR EACH STATEMENT EXECUTE FUNCTION tell_of_history()
    """)


def downgrade() -> None:
    op.execute("DROP TRIGGER tell_of_history ON job_events")
    op.execute("DROP FUNCTION tell_of_history()")
    # An older version lets every token do everything: those that cannot, and that are of no person's making, go.
    op.execute("DELETE FROM tokens WHERE scope <> 'admin' OR kind <> 'bearer' OR expires_at IS NOT NULL")
    op.execute("UPDATE tokens SET name = user_name")
    op.drop_constraint(op.f("ck_tokens_scope"), "tokens")
    op.drop_constraint(op.f("ck_tokens_kind"), "tokens")
    op.drop_constraint(op.f("fk_tokens_user_name"), "tokens", type_="foreignkey")
    op.drop_constraint(op.f("uq_tokens_id"), "tokens", type_="unique")
    op.drop_index("ix_tokens_user", table_name="tokens")
    op.drop_column("tokens", "last_used_at")
    op.drop_column("tokens", "expires_at")
    op.drop_column("tokens", "created_by")
    op.drop_column("tokens", "rate_limit_per_s")
    op.drop_column("tokens", "scope")
    op.drop_column("tokens", "user_name")
    op.drop_column("tokens", "kind")
    op.drop_column("tokens", "id")
    op.drop_constraint(op.f("fk_studies_project"), "studies", type_="foreignkey")
    op.drop_index("ix_studies_going_on", table_name="studies", postgresql_where=sa.text("ended_at IS NULL"))
    op.drop_column("studies", "ended_at")
    op.drop_column("studies", "project")
    op.drop_constraint(op.f("fk_jobs_project"), "jobs", type_="foreignkey")
    op.drop_index("ix_jobs_project", table_name="jobs")
    op.drop_index("ix_jobs_owner", table_name="jobs")
    op.drop_index("ix_idempotency_keys_created_at", table_name="idempotency_keys")
    for index in ("ix_jobs_paused", "ix_jobs_ended", "ix_jobs_started", "ix_jobs_priority", "ix_jobs_name"):
        op.drop_index(index, table_name="jobs")
    op.drop_index(
        "ix_jobs_with_artifacts",
        table_name="jobs",
        postgresql_where=sa.text("ended_at IS NOT NULL AND artifacts_removed_at IS NULL"),
    )
    op.drop_column("jobs", "artifacts_removed_at")
    op.drop_column("jobs", "dataset_ref")
    op.drop_column("jobs", "project")
    op.drop_index("ix_mirrors_open", table_name="mirrors", postgresql_where=sa.text("done_at IS NULL"))
    op.drop_table("mirrors")
    op.drop_index(
        "ix_webhook_deliveries_failed",
        table_name="webhook_deliveries",
        postgresql_where=sa.text("next_at IS NULL AND delivered_at IS NULL"),
    )
    op.drop_index("ix_webhook_deliveries_created", table_name="webhook_deliveries")
    op.drop_index("ix_webhook_deliveries_webhook", table_name="webhook_deliveries")
    op.drop_index(
        "ix_webhook_deliveries_due", table_name="webhook_deliveries", postgresql_where=sa.text("next_at IS NOT NULL")
    )
    op.drop_table("webhook_deliveries")
    op.drop_index("ix_webhooks_project", table_name="webhooks", postgresql_where=sa.text("deleted_at IS NULL"))
    op.drop_index("ix_webhooks_owner", table_name="webhooks", postgresql_where=sa.text("deleted_at IS NULL"))
    op.drop_table("webhooks")
    op.drop_table("project_usage")
    op.drop_table("project_members")
    op.drop_index("ix_dataset_versions_newest", table_name="dataset_versions")
    op.drop_table("dataset_versions")
    op.drop_table("users")
    op.drop_table("uploads")
    op.drop_table("projects")
    for column in ("subject", "action", "actor", "at"):
        op.drop_index(f"ix_audit_entries_{column}", table_name="audit_entries")
    op.drop_table("audit_entries")
