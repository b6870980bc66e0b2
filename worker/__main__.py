"""`python -m worker`: run this host's worker until SIGTERM."""

from jobs.runtime.logs import configure_logging
from jobs.runtime.settings import settings
from worker.app import Worker

configure_logging("worker", host=settings().host)
Worker(settings()).run()
