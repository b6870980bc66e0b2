"""How the end of a script's process becomes the end of its rank."""

import signal
from pathlib import Path

import pytest

from trainer.script.exits import exit_of_child

MEMORY = ", as the kernel does when memory runs out"


@pytest.mark.parametrize(
    ("code", "reason", "message", "rank_code"),
    [
        (0, "completed", None, 0),
        (3, "script_failed", "the script exited with 3", 1),
        (-signal.SIGSEGV, "rank_failed", "the script was killed by SIGSEGV", 1),
        (-signal.SIGKILL, "rank_failed", f"the script was killed by SIGKILL{MEMORY}", 1),
        (128 + signal.SIGKILL, "rank_failed", f"the script was killed by SIGKILL{MEMORY}", 1),  # as bubblewrap says it
        (128 + signal.SIGSEGV, "rank_failed", "the script was killed by SIGSEGV", 1),
        (200, "script_failed", "the script exited with 200", 1),
        (-40, "rank_failed", "the script was killed by signal 40", 1),  # a real-time signal has no name
        (-99, "rank_failed", "the script was killed by signal 99", 1),
    ],
)
def test_a_code_has_a_reason(tmp_path: Path, code: int, reason: str, message: str | None, rank_code: int) -> None:
    assert exit_of_child(code, tmp_path / "no log", log_began=0) == (reason, message, rank_code)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (b"Traceback:\n  File\nmy.lib.ShapeError: 3 is not 4\nbye\n", ": my.lib.ShapeError: 3 is not 4"),
        (b"KeyError: 'a'\n\nValueError: b\n", ": ValueError: b"),
        (b"one\n  cannot open it  \n\n", ": cannot open it"),
        (b"\xff\x00 lost", ": \ufffd\ufffd lost"),
        (b"x" * 500, ": " + "x" * 400),
        (b" \n\n", ""),
    ],
)
def test_a_failure_says_the_last_error_of_the_log(tmp_path: Path, log: bytes, said: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(log)
    assert exit_of_child(1, path, log_began=0) == ("script_failed", f"the script exited with 1{said}", 1)


def test_only_what_this_script_said_last_counts(tmp_path: Path) -> None:
    path = tmp_path / "log"
    earlier = b"ValueError: of an earlier attempt\n"
    path.write_bytes(earlier + b"quiet end\n")
    assert exit_of_child(1, path, log_began=len(earlier))[1] == "the script exited with 1: quiet end"
    path.write_bytes(b"ValueError: long ago\n" + b"step\n" * 10_000)
    assert exit_of_child(1, path, log_began=0)[1] == "the script exited with 1: step"
