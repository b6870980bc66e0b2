"""The one database engine of a process. Called once by each of api, worker and supervisor."""

from sqlalchemy import Engine, create_engine
from sqlalchemy.orm import Session, sessionmaker

Sessions = sessionmaker[Session]


def engine_for(url: str, *, pool_size: int = 5) -> Engine:
    """An engine on PostgreSQL with psycopg 3, whatever the URL's own driver suffix is.

    Connections are tested when they are taken, so a restarted database costs one reconnect and no error.
    """
    _, _, rest = url.partition("://")
    return create_engine(
        f"postgresql+psycopg://{rest}",
        pool_size=pool_size,
        max_overflow=pool_size,
        pool_pre_ping=True,
        pool_timeout=10,
        connect_args={"connect_timeout": 5, "client_encoding": "utf8", "options": "-c timezone=UTC"},
    )


def sessions_for(engine: Engine) -> Sessions:
    """Sessions of which objects stay readable after the commit."""
    return sessionmaker(engine, expire_on_commit=False)
