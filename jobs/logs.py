"""Logs of a process: one JSON object a line on standard error, with the names that every line shares.

Called once at the start of api, worker and supervisor.
"""

import logging
import sys
from typing import Any

import structlog
from structlog.typing import EventDict, Processor


def configure_logging(part: str, **context: object) -> None:
    """Send structlog and the standard library's logging to standard error as JSON, with `part` and `context`."""
    fixed = {"part": part, **context}  # not context variables: those are a thread's own

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
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
