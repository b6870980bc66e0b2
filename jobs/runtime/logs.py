"""Logs of a process: one JSON object per line on standard error, with the same names in every line.

Called once at the start of api, worker and supervisor. A line has a sentence, and fields that say what it is about:
structlog's key-values, and `extra={"job": ..., "attempt": ..., "host": ..., "rank": ...}` of the standard library.
"""

import logging
import re
import sys
from typing import Any

import structlog
from structlog.typing import EventDict, Processor

# The libraries mask passwords in addresses themselves. This masks the ones that they miss.
_PASSWORD = re.compile(r"(://[^:/@\s\"]*:)[^/\s\"]+@|(\bpassword=)[^&\s\"']+")
# Fields of Celery and uvicorn: the whole message of a task, and the sentence repeated with terminal codes.
_NOISE = ("data", "color_message")


def configure_logging(part: str, **context: object) -> None:
    """Send structlog and the standard library's logging to standard error as JSON, with `part` and `context`."""
    fixed = {"part": part, **context}  # not context variables, because each thread has its own

    def add_fixed(_logger: Any, _method: str, event: EventDict) -> EventDict:
        return {**fixed, **event}

    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        add_fixed,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder(), _without_noise],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _rendered],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.captureWarnings(True)  # otherwise they are several lines without JSON


def _without_noise(_logger: Any, _method: str, event: EventDict) -> EventDict:
    return {key: value for key, value in event.items() if key not in _NOISE}


_as_json = structlog.processors.JSONRenderer()  # escapes line ends and other control characters: a line is one event


def _rendered(logger: Any, method: str, event: EventDict) -> str:
    """The line, without the password of any address in it."""
    line = str(_as_json(logger, method, event))
    if "://" not in line and "password=" not in line:  # the search takes longer than everything else here
        return line
    return _PASSWORD.sub(lambda match: f"{match[1]}***@" if match[1] else f"{match[2]}***", line)
