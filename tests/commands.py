"""Run the command line: in this process, in another process, or on a terminal."""

import io
import os
import pty
import re
import select
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import cast
from unittest.mock import patch

from hora.cli.app import main

# Trains until it is stopped: no early stopping, and more epochs than any test waits for.
LONG = ("--dataset", "digits", "--epochs", "100000", "--set", "early_stopping=null")
SHORT = ("--dataset", "digits", "--gpus", "2", "--batch-size", "64", "--epochs", "3")
HORA = (sys.executable, "-m", "hora")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def environment(home: Path, **more: str) -> dict[str, str]:
    """The environment of a command: that of this process without its HORA_ variables, with `home` and `more`."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HORA_")}
    return {**inherited, "HORA_HOME": str(home), **more}


def hora(home: Path, *arguments: str, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    """Run one command to its end in this process: to start another process would take many times longer."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with (
        patch.dict(os.environ, environment(home, **more), clear=True),
        patch("sys.stdin", io.StringIO(stdin)),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        code = main(arguments)
    printed = (cast("io.BytesIO", stream.buffer).getvalue().decode() for stream in (out, err))
    return subprocess.CompletedProcess(arguments, code, *printed)


def hora_process(home: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run one command to its end in a process of its own, as a person does."""
    return subprocess.run(
        [*HORA, *arguments],
        env=environment(home, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def in_terminal(home: Path, *arguments: str) -> tuple[int, str]:
    """Run one command on a terminal of its own. Returns its exit code and everything that it printed."""
    our_end, their_end = pty.openpty()
    more = {"TERM": "xterm-256color", "COLUMNS": "120"}
    process = subprocess.Popen(
        [*HORA, *arguments], env=environment(home, **more), stdin=their_end, stdout=their_end, stderr=their_end
    )
    os.close(their_end)
    output = b""
    try:
        while True:
            ready, _, _ = select.select([our_end], [], [], 240)
            assert ready, "the command printed nothing for 4 minutes"
            try:
                output += os.read(our_end, 65536)
            except OSError:  # the other end is closed
                return process.wait(120), output.decode()
    finally:
        process.kill()
        process.wait()
        os.close(our_end)
