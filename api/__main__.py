"""`python -m api`: serve the api until SIGTERM or SIGINT. The options are those of uvicorn, the rest are settings."""

import argparse
import os
import sys
from contextlib import suppress

import uvicorn

from api.main import app_for, configure_process
from api.serving.server import allow_files, config_for
from jobs.runtime.closed_home import close_home
from jobs.runtime.files import PRIVATE_UMASK
from jobs.runtime.settings import settings


def main() -> int:
    """Serve. The exit code is 3 if the server could not start."""
    parser = argparse.ArgumentParser(prog="python -m api", description="Serve the api.")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--port", type=int, default=settings().port, help="by default HORA_PORT")
    where.add_argument("--uds", metavar="PATH", help="listen on a Unix socket")
    where.add_argument("--fd", type=int, help="listen on an open socket of this number")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on; by default %(default)s")
    parser.add_argument(
        "--forwarded-allow-ips",
        metavar="ADDRESSES",
        help="proxies whose X-Forwarded-For and -Proto count, separated by commas; by default FORWARDED_ALLOW_IPS,"
        " or else loopback",
    )
    parser.add_argument(
        "--timeout-graceful-shutdown",
        metavar="SECONDS",
        type=int,
        default=3,
        help="how long open requests may go on after SIGTERM; by default %(default)s",
    )
    options = parser.parse_args()
    os.umask(PRIVATE_UMASK)
    configure_process()
    allow_files(settings())
    close_home(settings().home, scripts_pass=settings().code_user is not None)
    server = uvicorn.Server(config_for(app_for(settings()), settings(), **vars(options)))
    with suppress(KeyboardInterrupt):
        server.run()
    return 0 if server.started else 3


if __name__ == "__main__":
    sys.exit(main())
