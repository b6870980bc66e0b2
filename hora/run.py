"""The library inside a script: what Hora gives it, and what it tells Hora.

    from hora import run

    for step in range(steps):
        ...
        run.report(step=step, loss=loss)

Standard library only, for Python 3.9 and newer, so that it works in every environment. Outside Hora it does no harm:
reports are printed, and checkpoints and artifacts go to folders beside the script.

`spec`, `plan` and `params` are dictionaries, as the API shows them; `rank`, `size` and `local_rank` are those of this
process; `dataset.train` and `dataset.validation` are paths or URLs, or None; `artifacts` is the folder for files to
keep. `python -m hora.run FILE` runs a pickled call, for `client.jobs.run`.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import itertools
import json
import mmap
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from hora.run_media import Media, count

__all__ = [
    "alert", "artifacts", "audio", "checkpoint", "confusion_matrix", "curve", "dataset", "histogram", "image",
    "latest_checkpoint", "local_rank", "params", "phase", "plan", "pr", "progress", "rank", "report", "roc",
    "should_stop", "size", "spec", "table",
]  # fmt: skip

_METRICS_OF_LINE = 30  # then a line fits into what a pipe takes at once (PIPE_BUF): those of processes do not mix
_METRIC_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/@-]{0,63}")
_MOST_IN_TITLE, _MOST_IN_TEXT, _MOST_ALERT_BYTES = 100, 1000, 3500  # it too fits into PIPE_BUF
_LEVELS = ("info", "warning", "error")
_DECISION_S = 30.0  # for the ranks to agree on where to stop


class Dataset(NamedTuple):
    """The parts of the data that the spec names, as paths or URLs. None: there is no such part."""

    train: str | None = None
    validation: str | None = None


class Control(ctypes.Structure):
    """A small file that the script and its rank share. Each field is written by one of them."""

    _fields_ = [
        ("calls", ctypes.c_uint64),  # script: how often it asked whether to stop
        ("answered_yes", ctypes.c_uint64),  # script: 1 once the answer was yes
        ("stop_requested", ctypes.c_uint64),  # rank: 1 once somebody wants the job to stop
        ("stop_at", ctypes.c_uint64),  # rank: the call that answers yes; 0: the ranks have not agreed yet
    ]


def _run_file() -> dict[str, Any]:
    path = os.environ.get("HORA_RUN_FILE")
    if path is None:
        return {}
    with open(path, encoding="utf-8") as file:
        values: dict[str, Any] = json.load(file)
    return values


def _variable(*names: str) -> int | None:
    return next((int(os.environ[name]) for name in names if os.environ.get(name, "").isdigit()), None)


_values = _run_file()
_inside = bool(_values)
spec: dict[str, Any] = _values.get("spec", {})
plan: dict[str, Any] = _values.get("plan", {})
params: dict[str, Any] = spec.get("params", {})
rank: int = _values.get("rank", _variable("HOROVOD_RANK", "RANK") or 0)
size: int = _values.get("size", _variable("HOROVOD_SIZE", "WORLD_SIZE") or 1)
local_rank: int = _values.get("local_rank", _variable("HOROVOD_LOCAL_RANK", "LOCAL_RANK") or 0)
dataset = Dataset(_values.get("train"), _values.get("validation"))
artifacts: Path  # made by __getattr__ when it is first used


def __getattr__(name: str) -> Any:
    if name == "artifacts":
        folder = Path(_values.get("artifacts", "artifacts")).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        globals()["artifacts"] = folder
        return folder
    raise AttributeError(f"hora.run has no {name!r}; there are: {', '.join(__all__)}")


# ---- reports


def report(*, step: int | None = None, epoch: int | None = None, **numbers: Any) -> None:
    """Store numbers under any names, from any rank.

    With a `step` they belong to that step of this rank; an `epoch` beside it says in which. With an `epoch` alone they
    belong to the end of that epoch, and those of rank 0 count for the whole job. With neither, to the run so far.
    Raises `TypeError` and `ValueError` for what is no number, no count or no name.
    """
    fields: dict[str, Any] = {"kind": "report", "at": time.time()}
    if step is not None:
        fields["step"] = count("step", step)
    if epoch is not None:
        fields["epoch"] = count("epoch", epoch)
    metrics = {_name(name): _number(name, value) for name, value in numbers.items()}
    _phases.report_began()
    _send(fields, metrics, _phases.take())


def progress(done: float, total: float | None = None) -> None:
    """Say how much of the work is done, in units of your own. Raises `TypeError` and `ValueError`."""
    fields = {"kind": "progress", "at": time.time(), "done": _amount("done", done)}
    if total is not None:
        fields["total"] = _amount("total", total)
    _send(fields)


_alerted: dict[str, float] = {}  # when each title was last sent


def alert(title: str, text: str = "", level: str = "info", wait_seconds: float = 0) -> None:
    """Tell people something now, from any rank: in the job's events, and by its webhooks.

    `level` is `info`, `warning` or `error`. With `wait_seconds` the same title is sent only once in that time, by all
    ranks together. Long texts are cut, and of too many alerts some are left out. Raises `TypeError` and `ValueError`.
    """
    title, text = _text("title", title), _text("text", text)
    if level not in _LEVELS:
        raise ValueError(f"level must be one of {', '.join(_LEVELS)}, not {level!r:.60}")
    title, text, now = _shortened(" ".join(title.split()), _MOST_IN_TITLE), _shortened(text, _MOST_IN_TEXT), time.time()
    if not title:
        raise ValueError("title must not be empty")
    wait_s = min(_amount("wait_seconds", wait_seconds), 1e8)
    if title in _alerted and abs(now - _alerted[title]) < wait_s:
        return
    if len(_alerted) >= 1000:
        _alerted.clear()
    _alerted[title] = now
    if not _inside:
        print(f"alert: {level}: {title}{text and ': '}{text}", flush=True)
        return
    fields = {"kind": "alert", "at": now, "level": level, "title": title, "text": text, "wait_s": wait_s}
    while len(json.dumps(fields, ensure_ascii=False).encode()) > _MOST_ALERT_BYTES:
        fields["text"] = text = _shortened(text, len(text) * 3 // 4)
    _write(json.dumps(fields, ensure_ascii=False))


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a text, not {type(value).__name__} {value!r:.60}")
    return value


def _shortened(text: str, most: int) -> str:
    """The text, cut to so many characters, and without what is no character."""
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _amount(name: str, value: Any) -> float:
    amount = _number(name, value)
    if not 0 <= amount < 2**63:
        raise ValueError(f"{name} must be from 0 to 2**63, not {amount!r}")
    return amount


def _number(name: str, value: Any) -> float:
    if type(value) is float:
        return value
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{name} must be a number, not the text {value!r}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} must be a number that a float can hold, not {value!r:.60}") from None
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, not {type(value).__name__} {value!r:.60}") from None


_known_names: set[str] = set()


def _name(name: str) -> str:
    if name not in _known_names:
        if not _METRIC_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a metric: letters, digits and _.:/@-, at most 64 characters")
        _known_names.add(name)
    return name


def _send(
    fields: dict[str, Any],
    metrics: dict[str, float] | None = None,
    phases: dict[str, float] | None = None,
) -> None:
    """Send a message in as many lines as it needs."""
    if not _inside:
        _print(fields, metrics)
        return
    if metrics is None:
        _write(json.dumps(fields))
        return
    for number, part in enumerate(_parts(metrics)):
        if number == 0 and phases:
            _write(json.dumps({**fields, "metrics": part, "phases": phases}))
        else:
            _write(json.dumps({**fields, "metrics": part}))


def _parts(metrics: dict[str, float]) -> Iterator[dict[str, float]]:
    if len(metrics) <= _METRICS_OF_LINE:
        yield metrics
        return
    names = iter(metrics)
    while part := list(itertools.islice(names, _METRICS_OF_LINE)):
        yield {name: metrics[name] for name in part}


def _print(fields: dict[str, Any], metrics: dict[str, float] | None) -> None:
    words = {**{name: value for name, value in fields.items() if name not in ("at", "kind")}, **(metrics or {})}
    print(f"{fields['kind']}: " + " ".join(f"{name}={value:.6g}" for name, value in words.items()), flush=True)


class _Channel:
    """The pipe to the rank that watches over this script."""

    def __init__(self) -> None:
        self.pipe: int | None = None

    def write(self, line: str) -> None:
        if self.pipe is None:
            self.pipe = os.open(_values["channel"], os.O_WRONLY | os.O_CLOEXEC)
        with contextlib.suppress(BrokenPipeError):  # the rank is gone: this process is ended soon
            os.write(self.pipe, line.encode() + b"\n")


_channel = _Channel()


def _write(line: str) -> None:
    _channel.write(line)


# ---- phases


class _Phases:
    """The seconds of each phase since the last report."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._lock = threading.Lock()
        self.has_reported = False

    def add(self, name: str, seconds: float) -> None:
        with self._lock:
            self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def take(self) -> dict[str, float]:
        if not self._seconds:
            return self._seconds
        with self._lock:
            taken, self._seconds = self._seconds, {}
        return taken

    def report_began(self) -> None:
        self.has_reported = True


_phases = _Phases()


def _after_fork() -> None:
    """A forked process, such as a loader of data, may have got the lock in the middle of a phase."""
    _phases.__init__()  # type: ignore[misc]


os.register_at_fork(after_in_child=_after_fork)


class phase:  # noqa: N801 - used as a function
    """Measure a part of a step or of the set-up: `with run.phase("data"): batch = next(batches)`.

    `data` and `allreduce` are parts of a step's time; others become a metric such as `validate_s` in the next report.
    Before the first report a phase is a part of the set-up. Raises `ValueError` for a wrong name.
    """

    def __init__(self, name: str) -> None:
        if len(_name(name)) > 60:
            raise ValueError(f"the name of a phase has at most 60 characters, not {len(name)}")
        self._phase = name

    def __enter__(self) -> phase:
        self._began = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        seconds = time.perf_counter() - self._began
        if _phases.has_reported:
            _phases.add(self._phase, seconds)
        elif _inside:
            _send({"kind": "phase", "at": time.time(), "name": self._phase, "duration_s": seconds})


# ---- media


_media = Media(lambda: __getattr__("artifacts"), rank)
image, audio, histogram, table = _media.image, _media.audio, _media.histogram, _media.table
confusion_matrix, curve, roc, pr = _media.confusion_matrix, _media.curve, _media.roc, _media.pr


# ---- checkpoints


_saved: dict[str, Path] = {}


@contextlib.contextmanager
def checkpoint(step: int) -> Iterator[Path]:
    """Give a folder to write the checkpoint of a step into. It is kept when the block ends without an exception.

    It is complete or not there at all, whenever the process ends. Only that of rank 0 is kept. Raises `OSError`.
    """
    number = count("step", step)
    if rank != 0:
        with tempfile.TemporaryDirectory(prefix="checkpoint-") as name:
            yield Path(name)
        return
    began = time.perf_counter()
    folder = Path(_values.get("checkpoints", "checkpoints")).absolute()
    place, unfinished = folder / f"step-{number:010d}", folder / f".unfinished-{number:010d}-{os.getpid()}"
    unfinished.mkdir(parents=True)
    try:
        yield unfinished
        _sync_below(unfinished)
        replaced = _put_in_place(unfinished, place)
        _sync(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    if replaced is not None:
        with contextlib.suppress(RecursionError):  # what stays is removed when the job's next attempt starts
            shutil.rmtree(replaced, ignore_errors=True)
    _saved["newest"] = place
    duration_s = time.perf_counter() - began
    _send({"kind": "checkpoint", "at": time.time(), "step": number, "duration_s": duration_s})


def _put_in_place(unfinished: Path, place: Path) -> Path | None:
    """Give a finished folder its name. Returns the new, hidden path of an earlier folder of the same step.

    A reader finds a whole folder or none under the name. After a crash between the two renames there is none. The older
    checkpoints are still there, unless the job keeps only one.
    """
    if not place.exists():
        os.rename(unfinished, place)
        return None
    replaced = unfinished.with_name(f"{unfinished.name}-{time.time_ns()}")  # if an earlier one could not be removed
    os.rename(place, replaced)
    try:
        os.rename(unfinished, place)
    except BaseException:
        with contextlib.suppress(OSError):  # the new one may have its name already
            os.rename(replaced, place)
        raise
    return replaced


def latest_checkpoint() -> Path | None:
    """The folder of the newest complete checkpoint of the job, of earlier attempts too; None if there is none.

    Ranks on other hosts than rank 0 get None: load on rank 0 and broadcast.
    """
    if "newest" in _saved:
        return _saved["newest"]
    if not _inside:
        folders = sorted(Path("checkpoints").absolute().glob("step-" + "[0-9]" * 10))
        return folders[-1] if folders else None
    newest = _values.get("latest_checkpoint")
    if newest is None:
        return None
    _send({"kind": "resumed", "at": time.time(), "step": int(Path(newest).name.rpartition("-")[2])})
    return Path(newest)


def _sync_below(folder: Path) -> None:
    for path, _, names in os.walk(folder):
        for name in names:
            file = os.path.join(path, name)
            if not os.path.islink(file):
                _sync(Path(file))
        _sync(Path(path))


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


# ---- stopping


class _Asking:
    """Counts the questions of this process, and knows the answer."""

    def __init__(self) -> None:
        self._calls = itertools.count(1)
        self._control: Control | None = None
        if "control" in _values:
            with open(_values["control"], "r+b") as file:
                self._control = Control.from_buffer(mmap.mmap(file.fileno(), ctypes.sizeof(Control)))

    def ask(self) -> bool:
        control, call = self._control, next(self._calls)
        if control is None:
            return False
        control.calls = call
        if not control.stop_requested:
            return False
        give_up_at = time.monotonic() + _DECISION_S
        while not control.stop_at and time.monotonic() < give_up_at:
            time.sleep(0.001)
        if not control.stop_at or call < control.stop_at:
            return False
        control.answered_yes = 1
        return True


_asking = _Asking()


def should_stop() -> bool:
    """Whether to save and leave now: the job is paused, preempted, pruned or stopped early, or its host shuts down.

    All ranks get True at the same call. So call it equally often on each, for example after each step.
    """
    return _asking.ask()


# ---- a pickled call


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
    unfinished: Path = __getattr__("artifacts") / f".{name}"
    unfinished.write_bytes(content)
    unfinished.replace(unfinished.with_name(name))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m hora.run FILE")
    sys.path.insert(0, os.getcwd())
    # Not this copy of the module, but the one that the call imports.
    sys.exit(importlib.import_module("hora.run").call_file(sys.argv[1]))
