"""`python -m worker`: run this host's worker until SIGTERM."""

import os

from jobs.runtime.closed_home import close_home
from jobs.runtime.files import PRIVATE_UMASK, make_private
from jobs.runtime.logs import configure_logging
from jobs.runtime.settings import settings
from worker.app import Worker

os.umask(PRIVATE_UMASK)
make_private(settings().home)
close_home(settings().home, scripts_pass=settings().code_user is not None)
configure_logging("worker", host=settings().host)
Worker(settings()).run()
