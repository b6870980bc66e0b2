"""A process's log: one JSON object a line, whatever is in it, and no password."""

import contextlib
import io
import json
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobs.db.engine import engine_for
from jobs.runtime.logs import configure_logging


class Written(io.StringIO):
    """A captured standard error."""

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]


@contextlib.contextmanager
def logging_of_a_supervisor() -> Iterator[Written]:
    """Log as a supervisor does. Restore the logging of the tests afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    with contextlib.redirect_stderr(Written()) as stderr:
        configure_logging("supervisor", job="3k9v0t2m7x1q", attempt=2)
        try:
            yield stderr
        finally:
            logging.captureWarnings(False)
            root.handlers[:] = handlers
            root.setLevel(level)
            structlog.reset_defaults()


def failed(logger: Any, error: str) -> None:
    """Log an exception with this message."""
    try:
        raise RuntimeError(error)
    except RuntimeError:
        logger.exception("failed")


def test_a_log_line_has_its_time_source_event_and_extra_values() -> None:
    about = {"job": "other", "attempt": 3, "host": "gpu-1", "rank": 0}
    with warnings.catch_warnings(), logging_of_a_supervisor() as stderr:
        logging.getLogger("worker.agent").info("supervisor %d started", 7)
        logging.getLogger("worker").warning("stalled", extra=about)
        structlog.get_logger("api").info("request", path="/v1/jobs", job="third")
        warnings.simplefilter("always")
        warnings.warn("not so\ngood", UserWarning, stacklevel=1)
    line, stdlib, ours, warning = stderr.lines
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "supervisor 7 started", "level": "info", "logger": "worker.agent",
        "part": "supervisor", "job": "3k9v0t2m7x1q", "attempt": 2,
    }  # fmt: skip
    assert stdlib.items() >= (about | {"level": "warning"}).items()
    assert (ours["path"], ours["job"], ours["attempt"]) == ("/v1/jobs", "third", 2)
    assert "not so\ngood" in warning["event"]


def test_uvicorn_and_celery_lines_have_the_same_fields() -> None:
    task = {"id": "1", "name": "hora.launch", "args": "(1,)"}
    with logging_of_a_supervisor() as stderr:
        logging.getLogger("uvicorn.error").info("Started server", extra={"color_message": "\x1b[36mStarted\x1b[0m"})
        logging.getLogger("celery.app.trace").info("Task %(name)s[%(id)s] received", task, extra={"data": task})
    assert [line["event"] for line in stderr.lines] == ["Started server", "Task hora.launch[1] received"]
    fields = {"event", "level", "logger", "part", "job", "attempt", "timestamp"}
    assert all(line.keys() == fields for line in stderr.lines)


FORGED = '\n{"event": "forged", "level": "info"}\r\n'


@given(st.text(), st.dictionaries(st.text(), st.text() | st.binary() | st.none() | st.floats()))
@example(FORGED, {FORGED: FORGED})
@settings(max_examples=50)
def test_any_text_and_fields_are_logged_as_one_line(text: str, fields: dict[str, Any]) -> None:
    named = {f"x_{key}": value for key, value in fields.items()}
    with logging_of_a_supervisor() as stderr:
        structlog.get_logger("api").info("said", text=text, **named)
        logging.getLogger("worker").info("a rank said %s", text, extra=named)
        failed(logging.getLogger("worker"), text)
    written = stderr.getvalue()
    assert (written.count("\n"), written[-1], written.isascii()) == (3, "\n", True)
    first, second, third = stderr.lines
    assert (first["event"], third["event"]) == ("said", "failed")
    assert text != FORGED or (second["event"], second[f"x_{FORGED}"]) == (f"a rank said {FORGED}", FORGED)


@pytest.mark.parametrize(
    "said",
    [
        "cannot reach postgresql://hora:s3cret@db/hora",
        "cannot reach postgresql+psycopg://hora:s3c@ret@db:5432/hora?sslmode=require",
        'cannot reach "redis://:s3cret@redis:6379/0" at all',
        "bad conninfo: host=db password=s3cret user=hora",
        "postgresql://db/hora?user=hora&password=s3cret",
    ],
)
def test_passwords_in_addresses_are_masked(said: str) -> None:
    with logging_of_a_supervisor() as stderr:
        logging.getLogger("a").error("%s", said, extra={"url": said})
        failed(structlog.get_logger("b"), said)
    assert len(stderr.lines) == 2
    assert "s3c" not in stderr.getvalue()
    assert "***" in stderr.getvalue()


@pytest.mark.parametrize(
    "said", ["http://api:8400/v1/jobs?label=a@b", "see https://host/a:b@c", "a: b@c", "://:@", "password: unset"]
)
def test_text_without_a_password_is_logged_unchanged(said: str) -> None:
    with logging_of_a_supervisor() as stderr:
        logging.getLogger("a").info("%s", said)
    assert stderr.lines[0]["event"] == said


@pytest.mark.parametrize("port", ["1", "port"])
def test_database_driver_error_is_logged_without_the_password(port: str) -> None:
    with logging_of_a_supervisor() as stderr:
        try:
            engine_for(f"postgresql://hora:s3cret@127.0.0.1:{port}/hora").connect()
        except Exception:
            logging.getLogger("a").exception("the database is away")
    assert port in stderr.lines[0]["exception"]
    assert "s3cret" not in stderr.getvalue()
