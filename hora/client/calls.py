"""Calls of functions as jobs: the function as an archive of code, and its value or exception. For `client.jobs.run`.

The other end is `python -m hora.run`.
"""

import inspect
import json
import pickle
import site
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

import hora
import jobs
from hora.errors import HoraError, NotFound, ScriptFailed
from hora.service import Service
from hora.service.code_folders import CodeSource
from hora.service.upload_sources import TarFile
from jobs.model.states import EndReason
from jobs.views.jobs import JobView

_CALL_FILE = "call.pickle"
COMMAND = ("python", "-m", "hora.run", _CALL_FILE)
_NO_VALUE = "the function ended the process before it returned a value"
_NO_CLOUDPICKLE = "No module named 'cloudpickle'"


class RemoteTraceback(Exception):
    """The traceback of a function on rank 0, as text. It is the cause of the exception that the client raises."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(text)

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


def packed_call(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> CodeSource:
    """An archive of code that calls a function.

    Raises `TypeError` for what is no function with a value, and `HoraError` if it cannot be pickled.
    """
    _check_function(function)
    try:
        with _local_modules_by_value():
            call = cloudpickle.dumps((function, tuple(args), dict(kwargs or {})))
    except Exception as error:
        raise HoraError(f"The call cannot be sent: {error}") from error
    content = pickle.dumps(sys.version_info[:2]) + call
    return CodeSource([TarFile(_CALL_FILE, len(content), content)])


def _check_function(function: object) -> None:
    if not callable(function):
        raise TypeError(f"run calls a function, and {function!r:.80} is none")
    if inspect.iscoroutinefunction(function):
        raise TypeError("a coroutine has no value before it is awaited: call it with asyncio.run in a function")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError("a generator cannot come back from a rank: return a list")


def value_of(service: Service, job: JobView) -> Any:
    """The value of a function whose job succeeded. Raises `ScriptFailed` if it left none."""
    try:
        content = _artifact(service, job, "result.pickle")
    except NotFound:
        raise ScriptFailed(job.model_copy(update={"error": _NO_VALUE}), _NO_VALUE) from None
    return pickle.loads(content)  # noqa: S301 - `run` says whom this trusts


def error_of(service: Service, job: JobView) -> Exception | None:
    """The exception that the function raised on rank 0, with its traceback as the cause. None if it raised none."""
    if job.end_reason != EndReason.SCRIPT_FAILED:
        return None
    try:
        text = str(json.loads(_artifact(service, job, "error.json"))["traceback"])
    except NotFound:  # another rank failed, or the process ended before it called the function
        return None
    sent: object = None
    with suppress(Exception):  # its class may be missing here
        sent = pickle.loads(_artifact(service, job, "error.pickle"))  # noqa: S301
    error = sent if isinstance(sent, Exception) else ScriptFailed(job, text)
    error.__cause__ = RemoteTraceback(text)
    if _NO_CLOUDPICKLE in text:
        error.add_note('The environment of the job lacks cloudpickle: call run with requirements=["cloudpickle"].')
    return error


def _artifact(service: Service, job: JobView, path: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return service.download_artifact(job.id, path, Path(folder) / "artifact").read_bytes()


@contextmanager
def _local_modules_by_value() -> Iterator[None]:
    """Pickle what comes from modules that are not installed by value: the ranks do not have these modules.

    `cloudpickle` does so by itself only for `__main__`.
    """
    installed = _installed_folders()
    before = cloudpickle.list_registry_pickle_by_value()
    local = [
        module
        for name, module in list(sys.modules.items())
        if name not in before and name != "__main__" and _is_local(module, name, installed)
    ]
    for module in local:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in local:
            cloudpickle.unregister_pickle_by_value(module)


def _installed_folders() -> list[Path]:
    """Where modules are that the ranks have too: those of Python, of installed packages, and of Hora."""
    folders = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [*site.getsitepackages(), site.getusersitepackages()]
    of_hora = [Path(next(iter(package.__path__))) for package in (hora, jobs)]
    return [*(Path(folder).resolve() for folder in folders), *of_hora]


def _is_local(module: ModuleType | None, name: str, installed: Sequence[Path]) -> bool:
    file: str | None = getattr(module, "__file__", None)
    if file is None or not file.endswith(".py") or getattr(module, "__name__", None) != name:
        return False
    path = Path(file).resolve()
    return not any(path.is_relative_to(folder) for folder in installed)
