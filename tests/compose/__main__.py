"""`python -m tests.compose`: docker-compose.yml in docker or podman, new, or with `--from REVISION` upgraded.

With `--gpu` it is docker-compose.gpu.yml, on a machine that need not have a GPU. With `--store` the workers share a
store and no disk.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.compose.checks import check_cpu_slots, check_doctor, check_job, check_page, check_upload
from tests.compose.stack import ContainerStack, NoEngine, find_compose
from tests.compose.upgrade import upgrade
from tests.upgrade.versions import NEW, NoOlderVersion, Version


def main() -> int:
    """Check a stack, and remove it again. The exit code is 1 if a check failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.compose")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--from", dest="revision", help="start this revision of git, and upgrade it while a job trains")
    kinds.add_argument("--gpu", action="store_true", help="start the image for GPU hosts, without a GPU")
    kinds.add_argument("--store", action="store_true", help="give each worker a disk of its own, and all a store")
    options = parser.parse_args()
    begun = time.monotonic()

    def say(line: str) -> None:
        print(f"compose-test, {time.monotonic() - begun:.0f} s: {line}", flush=True)

    with tempfile.TemporaryDirectory(prefix="hora-") as name:
        try:
            compose = find_compose(Path(name) / "podman-compose")
            old = Version.of(options.revision, Path(name) / "old") if options.revision else None
        except (NoEngine, NoOlderVersion) as error:
            say(str(error))
            return 2
        stack = ContainerStack(compose, Path(name), gpu=options.gpu, store=options.store)
        try:
            if old:
                upgrade(stack, old, say)
            else:
                stack.up(NEW)
            check_page(stack)
            check_job(stack, check_upload(stack))
            if options.gpu:
                say(f"hora hosts:\n{check_cpu_slots(stack)}")
            else:
                check_doctor(stack)
        except BaseException:
            stack.print_logs()
            raise
        finally:
            stack.remove()
    say("all checks passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
