"""Looks at archives of code in a process of its own (`code_inspection`), without the secrets of this one.

Called by the routes of code and of uploads. A request takes a turn before, so that few such processes run at once.

    BadArchive      the archive is refused; the text is for its sender
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import structlog

from api.callers import Caller
from api.deps import Services
from api.problems import Problem
from jobs.data import code
from jobs.data.code import PIECE_BYTES, NewCode
from jobs.data.code_archives import MOST_UNPACKED_BYTES, BadArchive, CodeFile
from jobs.db.engine import Sessions
from jobs.model.scopes import Scope

_LIMIT_S = 90.0
_MOST_CPU_S = 60
_MOST_COMPARING_CPU_S = 20
_log = structlog.get_logger(__name__)


def require_code_allowed(services: Services, caller: Caller) -> None:
    """Refuse callers who may not send code, and all where the operator runs none. Raises `Problem`."""
    caller.require_scope(Scope.CODE)
    if not services.site.runs_code:
        detail = "this stack runs no code of its users: its operator has to set HORA_CODE=on"
        raise Problem(409, "code-off", "Code is off", detail)


def look_at(archive: int) -> NewCode:
    """What is in an archive, an open file. Raises `BadArchive`."""
    answer = _asked({"action": "inspect", "most_bytes": MOST_UNPACKED_BYTES}, archive)
    return NewCode(answer["digest"], os.fstat(archive).st_size, [CodeFile(*values) for values in answer["files"]])


def text_in(archive: int, path: str) -> str | None:
    """The text of a file in an archive, an open file. None: it is no text, or too long. Raises `BadArchive`."""
    text: str | None = _asked({"action": "read", "path": path}, archive)["text"]
    return text


def hunks_between(before: int, after: int, paths: Sequence[str]) -> dict[str, str | None]:
    """The hunks of these files between two archives, open files; None: not to be shown. Raises `BadArchive`."""
    hunks: dict[str, str | None] = _asked(
        {"action": "compare", "paths": paths, "most_cpu_s": _MOST_COMPARING_CPU_S}, before, after
    )["hunks"]
    return hunks


def _asked(request: Mapping[str, Any], *archives: int) -> dict[str, Any]:
    """The answer of a process that looks into archives. Raises `BadArchive`."""
    environment = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
    argv = [sys.executable, "-m", "api.processes.code_inspection", *(f"/dev/fd/{archive}" for archive in archives)]
    try:
        process = subprocess.run(
            argv, input=json.dumps({"most_cpu_s": _MOST_CPU_S, **request}).encode(), pass_fds=archives,
            capture_output=True, env=environment, timeout=_LIMIT_S, check=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise BadArchive("the archive takes too long to read") from None
    except subprocess.CalledProcessError as error:
        _log.error(
            "archive not read", returncode=error.returncode, stderr=error.stderr[-2000:].decode(errors="replace")
        )
        raise BadArchive("the archive cannot be read: it takes too much time or memory") from None
    answer: dict[str, Any] = json.loads(process.stdout)
    if "refused" in answer:
        raise BadArchive(answer["refused"])
    return answer


@contextmanager
def fetched(sessions: Sessions, digest: str) -> Iterator[int]:
    """A stored archive as an open file without a name. Raises `CodeNotFound`."""
    with tempfile.TemporaryFile() as file:
        with sessions() as session:
            for piece in code.pieces_of(session, digest):
                file.write(piece)
        file.flush()
        yield file.fileno()


def pieces_of(archive: int) -> Iterator[bytes]:
    """The bytes of an archive, an open file, in pieces as they are stored."""
    position = 0
    while piece := os.pread(archive, PIECE_BYTES, position):
        position += len(piece)
        yield piece
