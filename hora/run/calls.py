"""Runs a pickled call, for `client.jobs.run`, and leaves what it returns, or raises, as artifacts."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

from hora.run.given import artifacts_folder, rank


def call_file(path: str) -> int:
    """Run the call in a file. Rank 0 leaves its value, or its exception, as artifacts. Returns the exit code.

    The file has two pickles: the version of the Python that made it, and then `(function, args, kwargs)`.
    """
    import pickle
    import traceback

    try:
        with open(path, "rb") as file:
            _check_python(pickle.load(file))  # noqa: S301 - the job's own code
            function, args, kwargs = pickle.load(file)  # noqa: S301
        value = function(*args, **kwargs)
        if rank == 0:
            _leave_artifact("result.pickle", _pickled(value))
    except Exception as error:
        text = traceback.format_exc()
        sys.stderr.write(text)
        sys.stderr.flush()
        if rank == 0:
            fields = {"type": type(error).__name__, "message": str(error), "traceback": text}
            _leave_artifact("error.json", json.dumps(fields).encode())
            with contextlib.suppress(Exception):
                _leave_artifact("error.pickle", _pickled(error))
        return 1
    return 0


def _check_python(sender: tuple[int, int]) -> None:
    """Functions are sent as bytecode, which another version reads wrongly or not at all."""
    if sender != sys.version_info[:2]:
        own = "{}.{}".format(*sys.version_info)
        raise RuntimeError(
            "Python {}.{} sent this function, and here is Python {}: use the same version".format(*sender, own)
        )


def _pickled(value: Any) -> bytes:
    import pickle

    with contextlib.suppress(ImportError):
        import cloudpickle as pickle  # type: ignore[import-untyped,no-redef]
    try:
        content: bytes = pickle.dumps(value)
    except Exception as error:
        raise TypeError(f"the value that rank 0 returned cannot be sent back: {error}") from error
    return content


def _leave_artifact(name: str, content: bytes) -> None:
    unfinished = artifacts_folder() / f".{name}"
    unfinished.write_bytes(content)
    unfinished.replace(unfinished.with_name(name))
