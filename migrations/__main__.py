"""`python -m migrations upgrade [REV] | downgrade REV | check | revision MESSAGE`, on `HORA_DATABASE_URL`."""

import argparse
import sys
import time

from alembic import command
from sqlalchemy.exc import OperationalError

import migrations
from jobs.db.engine import engine_for
from jobs.runtime.settings import settings

_PATIENCE_S = 120.0  # for a database that is still starting


def main() -> int:
    """Run one command; waits for the database first."""
    parser = argparse.ArgumentParser(prog="python -m migrations", description=__doc__)
    parser.add_argument("command", choices=["upgrade", "downgrade", "check", "revision"])
    parser.add_argument("argument", nargs="?")
    arguments = parser.parse_args()
    url = settings().database_url
    _wait_for(url)
    match arguments.command:
        case "upgrade":
            migrations.upgrade(url, arguments.argument or "head")
        case "downgrade":
            migrations.downgrade(url, arguments.argument or "-1")
        case "check":
            migrations.check(url)
        case "revision":
            command.revision(migrations.config_for(url), message=arguments.argument, autogenerate=True)
    return 0


def _wait_for(url: str) -> None:
    engine = engine_for(url)
    give_up_at = time.monotonic() + _PATIENCE_S
    while True:
        try:
            engine.connect().close()
            break
        except OperationalError as error:
            if time.monotonic() > give_up_at:
                sys.exit(f"the database does not answer: {error.orig}")
            time.sleep(0.5)
    engine.dispose()


if __name__ == "__main__":
    sys.exit(main())
