"""Run Schemathesis against an api, with all its checks and all its phases, also the stateful one.

Requests with odd texts come before it, and damaged HTTP on raw sockets after it.

Called by `python -m tests.fuzz` for many minutes, and by a test for some seconds.
"""

import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

from hora.stack.control import Stack
from tests.fuzz.raw_sockets import fuzz_raw_sockets
from tests.fuzz.requests import faults

_CONFIG = Path(__file__).with_name("schemathesis.toml")
# These could lock out the token in use. They run after the others, with ids that do not exist.
_LOCKS_OUT = ("revoke_token", "change_user")
_SHOWN = 6000  # characters of a finding


def fuzz_a_stack(home: Path, *, seconds: int, seed: int, report: Path) -> list[str]:
    """`fuzz` on an api of its own without a worker: jobs stay queued, and no webhook is sent."""
    with (
        patch.dict("os.environ", {"HORA_CODE": "on"}),
        Stack(home, port=0, slots=2, parts=("database", "broker", "migrations", "api")) as stack,
    ):
        failed_outputs = fuzz(stack.url, stack.token, seconds=seconds, seed=seed, report=report)
        return failed_outputs + _fuzz_sockets(stack, seconds=max(2, seconds // 10), seed=seed, report=report)


def _fuzz_sockets(stack: Stack, *, seconds: int, seed: int, report: Path) -> list[str]:
    """The findings on raw sockets, and what the api wrote into its log if it did not expect something."""
    known = len(stack.log_of("api"))
    number, findings = fuzz_raw_sockets(stack.url, stack.token, seconds=seconds, seed=seed)
    log = stack.log_of("api")[known:]
    if (place := log.find("Traceback")) >= 0:
        findings.append(log[place:].partition("\n")[0][-_SHOWN:])  # a line; the error is at its end
    with report.open("a") as output:
        output.write(f"\n{number} damaged requests on raw sockets\n")
    return findings


def fuzz(url: str, token: str, *, seconds: int, seed: int, report: Path) -> list[str]:
    """The faults, and the ends of the outputs that have findings; empty without findings. `report` gets all output."""
    main = [f"--exclude-operation-id={name}" for name in _LOCKS_OUT]
    rest = [f"--include-operation-id={name}" for name in _LOCKS_OUT]
    failed_outputs = []
    faulty_texts, sent = faults(url, token, seconds=max(3, seconds // 4), seed=seed, without=_LOCKS_OUT)
    failed_outputs += faulty_texts
    with report.open("w") as output:
        output.write("\n".join([f"{sent} requests with texts of each syntax", *faulty_texts, ""]))
        for part, limit_s in ((main, seconds), ([*rest, "--phases=examples,coverage,fuzzing"], max(5, seconds // 20))):
            argv = [
                Path(sys.executable).with_name("schemathesis"), "--config-file", _CONFIG, "run", f"{url}/openapi.json",
                "--header", f"Authorization: Bearer {token}", "--checks=all", f"--max-time={limit_s}", f"--seed={seed}",
                "--continue-on-failure", "--request-timeout=10", "--no-color", *part,
            ]  # fmt: skip
            done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            output.write(done.stdout)
            if done.returncode != 0:
                failed_outputs.append(done.stdout[-_SHOWN:])
    return failed_outputs
