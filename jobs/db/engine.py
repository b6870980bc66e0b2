"""The one database engine of a process. Called once by each of api, worker and supervisor."""

import select
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import Engine, ExceptionContext, create_engine, event, text
from sqlalchemy.exc import DBAPIError, InvalidatePoolError, OperationalError, StatementError
from sqlalchemy.orm import Session, sessionmaker

from jobs.model.os_errors import in_words

Sessions = sessionmaker[Session]
OF_PROCESS = "of process"  # in the `info` of a session: what all sessions of one `sessions_for` remember together


# If a peer vanishes without closing the connection (a cut cable), either side gives up after about ten seconds. A Unix
# socket ignores these options.
_KEEPALIVES = {
    "keepalives": 1, "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 10_000,
}  # fmt: skip
_SERVER_KEEPALIVES = {
    "tcp_keepalives_idle": "5", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10000",
}  # fmt: skip


def engine_for(url: str, *, pool_size: int = 5, patience_s: float | None = None) -> Engine:
    """An engine on PostgreSQL with psycopg 3, whatever the URL's own driver suffix is.

    The database's own library reads the address, because SQLAlchemy refuses some that name several hosts.
    Connections are looked at when they are taken, so a restarted database costs one reconnect and no error.
    `patience_s` limits each statement, each wait for a lock, and each pause inside a transaction: a process that was
    stopped in the middle of a transaction must not hold up others.
    """
    engine = create_engine(
        "postgresql+psycopg://",
        pool_size=pool_size,
        max_overflow=pool_size,
        pool_timeout=10,
        connect_args={**conninfo_to_dict(libpq_address(url)), **connection_options(patience_s)},
    )
    event.listen(engine, "checkout", _replace_closed)
    event.listen(engine, "handle_error", _leave_standby)
    return engine


def _replace_closed(connection: psycopg.Connection, *_: object) -> None:
    """Replace connections that the server has closed. SQLAlchemy's own ping is a round trip before each transaction.

    An idle server sends nothing, until it says why it closes. A connection that is cut fails by its keepalives.
    """
    arrivals = select.poll()
    if not connection.closed:
        arrivals.register(connection, select.POLLIN)
    if connection.closed or arrivals.poll(0):
        raise InvalidatePoolError


def _leave_standby(context: ExceptionContext) -> None:
    """Drop a connection to a server that takes no writes. After a switch-over the next one leads to the primary."""
    if getattr(context.original_exception, "sqlstate", None) == _READ_ONLY:
        context.is_disconnect = True


def libpq_address(url: str) -> str:
    """The address in the form of the database's own library, without the URL's driver suffix."""
    _, _, rest = url.partition("://")
    return f"postgresql://{rest}"


def connection_options(patience_s: float | None = None) -> dict[str, Any]:
    """The options of every connection; `patience_s` as in `engine_for`."""
    options = {"timezone": "UTC", **_SERVER_KEEPALIVES}
    if patience_s is not None:
        limit = f"{max(1, round(patience_s * 1000))}"  # milliseconds; 0 would mean none
        options |= {
            "statement_timeout": limit, "lock_timeout": limit, "idle_in_transaction_session_timeout": limit,
        }  # fmt: skip
    return {
        "connect_timeout": 5,
        "client_encoding": "utf8",
        "options": " ".join(f"-c {name}={value}" for name, value in options.items()),
        **_KEEPALIVES,
    }


def each_statement_alone(engine: Engine) -> Engine:
    """The same connections without transactions, for single reads. A transaction costs as much as such a read."""
    return engine.execution_options(isolation_level="AUTOCOMMIT")


def sessions_for(engine: Engine) -> Sessions:
    """Sessions whose objects stay readable after the commit."""
    return sessionmaker(engine, expire_on_commit=False, info={OF_PROCESS: {}})


def limit_statements(session: Session, seconds: float) -> None:
    """Limit the time of each statement of this transaction. For the error after that, `is_busy` is true."""
    session.execute(text(f"SET LOCAL statement_timeout = {round(seconds * 1000)}"))


def is_away(error: DBAPIError) -> bool:
    """Whether the connection failed or the database cannot answer now. The statement is then not at fault."""
    return isinstance(error, OperationalError) or error.connection_invalidated


def is_busy(error: DBAPIError) -> bool:
    """Whether the database answers, but a lock or a time limit stopped the statement."""
    return getattr(error.orig, "sqlstate", None) in _BUSY


def cause_in_words(error: Exception) -> str:
    """An unforeseen error in words, without a statement and its values: a secret may be among them."""
    cause = error.orig if isinstance(error, StatementError) and error.orig is not None else error
    if isinstance(cause, psycopg.Error):
        return f"{type(cause).__name__}: {cause.diag.message_primary or 'the database did not answer'}"
    return in_words(cause)


def is_out_of_time(error: DBAPIError) -> bool:
    """Whether a statement reached its time limit."""
    return getattr(error.orig, "sqlstate", None) == _CANCELLED


_CANCELLED = "57014"
_READ_ONLY = "25006"
# A deadlock, a lock that was not free in time, a statement that reached its time limit.
_BUSY = frozenset({"40P01", "55P03", _CANCELLED})
