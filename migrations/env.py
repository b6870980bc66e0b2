"""Alembic's entry point: connects to the database that `migrations.config_for` names."""

from alembic import context
from sqlalchemy import text

from jobs.db.engine import engine_for
from jobs.db.tables import Base

_ONE_AT_A_TIME = 0x686F7261  # "hora": an advisory lock's number


def run() -> None:
    """Run the migrations in one transaction, with time limits for each lock and statement."""
    engine = engine_for(context.config.attributes["database_url"])
    try:
        with engine.connect() as connection:
            connection.execute(text("SET statement_timeout = '10min'"))
            connection.commit()
            context.configure(connection=connection, target_metadata=Base.metadata, compare_server_default=True)
            with context.begin_transaction():
                connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _ONE_AT_A_TIME})
                # A migration that waits for a lock blocks every query after it. So it fails and must be run again.
                # Set only now: otherwise it would also limit the wait for another migration, which may take longer.
                connection.execute(text("SET LOCAL lock_timeout = '10s'"))
                context.run_migrations()
    finally:
        engine.dispose()


run()
