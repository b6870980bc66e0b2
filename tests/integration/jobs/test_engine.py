"""The engine takes every address that PostgreSQL's own library takes, and finds the primary again."""

import os
import socket
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, StatementError

from api.problem_answers import problem_of
from jobs.db.engine import Sessions, cause_in_words, engine_for, is_away

ADDRESSES = (
    "hora@/hora?host={gone},{here}&port=5432&target_session_attrs=read-write",
    "hora@{quoted_gone}:5432,{quoted_here}:5432/hora", "hora@{quoted_gone},{quoted_here}/hora",
)  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_of_several_hosts_leads_to_the_one_that_answers(
    postgres_url: str, tmp_path: Path, address: str
) -> None:
    hosts = {"gone": str(tmp_path), "here": parse_qs(urlsplit(postgres_url).query)["host"][0]}
    quoted = {f"quoted_{name}": quote(path, "") for name, path in hosts.items()}
    engine = engine_for("postgresql://" + address.format(**hosts, **quoted))
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SHOW timezone").scalar_one() == "UTC"
    engine.dispose()


def test_a_server_that_takes_no_writes_counts_as_away_and_its_connection_is_dropped(database: str) -> None:
    engine = engine_for(database, pool_size=1)
    with engine.connect() as connection:  # what a standby answers
        connection.exec_driver_sql("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
        connection.commit()
    with pytest.raises(DBAPIError) as caught, engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE refused (number int)")
    assert is_away(caught.value)
    assert problem_of(caught.value).status == 503
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE stored (number int)")
    engine.dispose()


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("SELECT nothing, CAST(:secret AS text)", 'UndefinedColumn: column "nothing" does not exist'),
        ("SELECT :secret, :other", "InvalidRequestError: A value is required for bind parameter 'other'"),
    ],
)
def test_an_error_in_words_has_no_statement(sessions: Sessions, statement: str, words: str) -> None:
    with pytest.raises(StatementError) as caught, sessions() as session:
        session.execute(text(statement), {"secret": "s3cret"})
    assert "s3cret" in str(caught.value)
    in_words = cause_in_words(caught.value)
    assert words in in_words
    assert "SELECT" not in in_words
    assert "s3cret" not in in_words


@pytest.mark.parametrize("how", ["ended by the server", "closed here", "cut"])
def test_a_lost_connection_is_replaced_before_a_transaction(database: str, how: str) -> None:
    engine, other = engine_for(database, pool_size=2), engine_for(database)
    with engine.connect() as one, engine.connect() as two:
        pids = [connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one() for connection in (one, two)]
        drivers = [connection.connection.driver_connection for connection in (one, two)]
    for pid, driver in zip(pids, drivers, strict=True):
        assert driver is not None
        match how:
            case "ended by the server":
                with other.begin() as connection:
                    connection.exec_driver_sql(f"SELECT pg_terminate_backend({pid}, 5000)")
            case "closed here":
                driver.close()
            case "cut":
                with socket.socket(fileno=os.dup(driver.fileno())) as end:
                    end.shutdown(socket.SHUT_RDWR)
    for _ in pids:
        with engine.begin() as connection:
            assert connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one() not in pids
    engine.dispose()
    other.dispose()
