"""How the end of a script's process becomes the reason of its rank's exit record. Pure."""

import re
import signal
from pathlib import Path

Exit = tuple[str, str | None, int]  # reason, message, exit code of the rank

FAILED_CODE = 1
_SIGNALLED = 128  # bubblewrap and shells exit with this and the number of the signal that ended their program
_LAST_STANDARD_SIGNAL = 31
_TAIL_BYTES = 16 * 1024
_ERROR = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt|Warning)\b.*")
_MOST_TEXT = 400


def exit_of_child(code: int, log: Path, *, log_began: int) -> Exit:
    """The exit of a rank whose script ended by itself. `log` holds what it printed, from the byte `log_began` on."""
    if code == 0:
        return "completed", None, 0
    number = -code if code < 0 else code - _SIGNALLED
    if code < 0 or 0 < number <= _LAST_STANDARD_SIGNAL:
        names = {known.value: known.name for known in signal.Signals}  # without most real-time signals
        name = names.get(number, f"signal {number}")
        hint = ", as the kernel does when memory runs out" if number == signal.SIGKILL else ""
        return "rank_failed", f"the script was killed by {name}{hint}", FAILED_CODE
    said = _last_error(log, log_began)
    return "script_failed", f"the script exited with {code}" + (f": {said}" if said else ""), FAILED_CODE


def _last_error(log: Path, began: int) -> str:
    """The last line of the log that looks like an error of Python, else its last line."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(began, size - _TAIL_BYTES))
            lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    except OSError:
        return ""
    errors = [line for line in lines if _ERROR.match(line)]
    said = errors[-1] if errors else (lines[-1] if lines else "")
    return said.replace("\x00", "\ufffd")[:_MOST_TEXT]
