"""`python -m tests.upgrade --from REVISION`: a rolling upgrade from an older version of git, with jobs that train."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.upgrade.rolling import Upgrade
from tests.upgrade.versions import NoOlderVersion, Version, newest_older_version


def main() -> int:
    """Upgrade once. The exit code is 1 if a check failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.upgrade")
    parser.add_argument("--from", dest="revision", help="by default the newest tag, or the last older schema")
    arguments = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hora-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)  # the database's own user must get in
        try:
            old = Version.of(arguments.revision or newest_older_version(), folder / "old")
        except NoOlderVersion as error:
            print(error, file=sys.stderr)
            return 2
        failures = Upgrade(folder / "stack", old, lambda line: print(line, flush=True)).run()
    print("; ".join(failures) if failures else f"all checks passed ({time.monotonic() - begun:.0f} s)")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
