"""Pictures, sounds, histograms, tables and curves of a script, by step: files among the artifacts of its job.

`media/NAME/STEP.ENDING` says it all, so there is no index: a step that is logged again, for example after a restart,
replaces its file. `figures` imports NumPy when a call needs it.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Sequence, Sized
from pathlib import Path
from typing import Any

from hora.run import figures
from hora.run.checks import count
from hora.run.figures import LeftOut
from hora.run.given import artifacts_folder, rank

MOST_OF_NAME = 1_000
MOST_OF_JOB = 10_000
MOST_BYTES = 10_000_000
_MOST_BYTES_OF_JOB = 1_000_000_000
_LONGEST_NAME = 64
_LONGEST_CAPTION = 1_000
_HIGHEST_RATE = 1_000_000  # a WAV file has 32 bits for the bytes of a second
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.@-]*)*")
_WHOLE = "run"  # in place of a step: it belongs to the whole run
_PICTURES = ("png", "jpg", "webp")
_SOUNDS = ("wav", "mp3", "ogg", "flac")


class Media:
    """The calls of `hora.run` about media. Only rank 0 keeps something; the calls of other ranks do nothing.

    All take a `name`, which may have parts (`val/samples`), and a `step`; without one it belongs to the whole run.
    Wrong arguments raise `TypeError` or `ValueError`. What is beyond a limit, or cannot be written, is left out with a
    warning in the log.
    """

    def __init__(self, artifacts: Callable[[], Path], rank: int) -> None:
        self._artifacts = artifacts
        self._is_kept = rank == 0
        self._lock = threading.Lock()
        self._sizes: dict[str, int] | None = None  # bytes by path below `media`, of earlier attempts too
        self._warned: set[str] = set()

    def image(self, name: str, image: Any, step: int | None = None, caption: str = "") -> None:
        """Keep a picture: the path of a PNG, JPEG or WebP file, or an array.

        Arrays are `(height, width)`, or `(height, width, channel)` with 1, 3 or 4 channels, of uint8, booleans, or
        floats from 0 to 1. Figures of matplotlib and images of Pillow are kept as PNG.
        """

        def made() -> tuple[str, bytes]:
            if isinstance(image, (str, os.PathLike)):
                content = _read(image)
                return figures.picture_of_file(content), content
            return figures.picture(image)

        self._keep(name, step, made, instead_of=_PICTURES, caption=caption)

    def audio(self, name: str, samples: Any, rate: int = 0, step: int | None = None) -> None:
        """Keep a sound: the path of a WAV, MP3, Ogg or FLAC file, or samples with their `rate` per second.

        Samples are `(time,)` or `(time, channel)`, of int16 or floats from -1 to 1.
        """

        def made() -> tuple[str, bytes]:
            if isinstance(samples, (str, os.PathLike)):
                content = _read(samples)
                return figures.sound_of_file(content), content
            if not 0 < count("rate", rate) <= _HIGHEST_RATE:
                raise ValueError(f"samples need their rate per second, from 1 to {_HIGHEST_RATE}: rate=44100")
            return "wav", figures.sound(samples, rate)

        self._keep(name, step, made, instead_of=_SOUNDS)

    def histogram(self, name: str, values: Any, step: int | None = None, bins: int = 64) -> None:
        """Keep how values of any shape spread. The values are not kept, and those that are not finite do not count."""
        self._keep_json(name, step, "histogram", lambda: figures.histogram(values, bins))

    def table(self, name: str, columns: Iterable[Any], rows: Iterable[Iterable[Any]], step: int | None = None) -> None:
        """Keep a table. Cells are texts, numbers, booleans or None. Of a long one the first 10,000 rows are kept."""

        def made() -> dict[str, Any]:
            if isinstance(rows, Sized) and len(rows) > figures.MOST_ROWS:
                self._warn("rows", f"of the {len(rows)} rows of {name} the first {figures.MOST_ROWS} are kept")
            return figures.table(columns, rows)

        self._keep_json(name, step, "table", made)

    def confusion_matrix(
        self, name: str, truth: Any, predicted: Any, labels: Sequence[Any] | None = None, step: int | None = None
    ) -> None:
        """Keep how often each class was taken for each. Classes are texts, or whole numbers from 0 with `labels`.

        `predicted` may be scores `(sample, class)`: the highest one counts.
        """
        self._keep_json(name, step, "matrix", lambda: figures.confusion_matrix(truth, predicted, labels))

    def curve(self, name: str, x: Any, y: Any, step: int | None = None, x_name: str = "x", y_name: str = "y") -> None:
        """Keep a line, or several: then `y` is a dictionary of values by name. Of a long one 2,000 points are kept."""
        self._keep_json(name, step, "curve", lambda: figures.curve(x, y, x_name, y_name))

    def roc(
        self, name: str, truth: Any, scores: Any, step: int | None = None, labels: Sequence[Any] | None = None
    ) -> None:
        """Keep the ROC curve of scores `(sample,)`, or of `(sample, class)` one for each class against all others.

        With the area under each. Fawcett, "An introduction to ROC analysis", Pattern Recognition Letters 27 (2006).
        """
        self._keep_json(name, step, "curve", lambda: figures.roc(truth, scores, labels))

    def pr(
        self, name: str, truth: Any, scores: Any, step: int | None = None, labels: Sequence[Any] | None = None
    ) -> None:
        """Keep the precision over the recall, with the average precision: the sum of (R_n - R_n-1) P_n. As `roc`."""
        self._keep_json(name, step, "curve", lambda: figures.pr(truth, scores, labels))

    def _keep_json(self, name: str, step: int | None, kind: str, made: Callable[[], dict[str, Any]]) -> None:
        def written() -> tuple[str, bytes]:
            return f"{kind}.json", json.dumps(made(), separators=(",", ":"), allow_nan=False).encode()

        self._keep(name, step, written)

    def _keep(
        self,
        name: str,
        step: int | None,
        made: Callable[[], tuple[str, bytes]],
        *,
        instead_of: Sequence[str] = (),
        caption: str = "",
    ) -> None:
        """Write the file that `made` gives, with its ending. It replaces files of the same step `instead_of` it."""
        stem = _stem(name, step)
        if not isinstance(caption, str):
            raise TypeError(f"caption must be a text, not {caption!r:.60}")
        if not self._is_kept:
            return
        try:
            ending, content = made()
            self._write(name, stem, ending, content, caption)
        except LeftOut as error:
            self._warn(str(error), f"{name} is left out: {error}")
            return
        for other in instead_of:
            if other != ending:
                _remove(self._artifacts() / "media" / f"{stem}.{other}")

    def _write(self, name: str, stem: str, ending: str, content: bytes, caption: str) -> None:
        """Write the file of a step, and beside it the caption. Raises `LeftOut`."""
        if len(content) > MOST_BYTES:
            raise LeftOut(f"it has {len(content)} bytes, and {MOST_BYTES} are the most")
        folder, path = self._artifacts() / "media", f"{stem}.{ending}"
        with self._lock:
            sizes = self._sizes = _sizes_below(folder) if self._sizes is None else self._sizes
            _require_room(sizes, name, path, len(content))
            try:
                _write(folder / path, content)
                _write(folder / f"{stem}.txt", caption[:_LONGEST_CAPTION].encode("utf-8", "replace"))
            except OSError as error:
                raise LeftOut(error.strerror or str(error)) from None
            sizes[path] = len(content)

    def _warn(self, kind: str, text: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            print(f"warning: {text}", file=sys.stderr, flush=True)


def _sizes_below(folder: Path) -> dict[str, int]:
    """The bytes of all media by path, without captions."""
    files = (Path(above, file) for above, _, names in os.walk(folder) for file in names)
    return {file.relative_to(folder).as_posix(): file.stat().st_size for file in files if file.suffix != ".txt"}


def _require_room(sizes: dict[str, int], name: str, path: str, size: int) -> None:
    """Raises `LeftOut` if the name or the job has no room for a file."""
    others = sizes.keys() - {path}
    if len(others) >= MOST_OF_JOB:
        raise LeftOut(f"the job has {MOST_OF_JOB} media already")
    if sum(other.rpartition("/")[0] == name for other in others) >= MOST_OF_NAME:
        raise LeftOut(f"the name has {MOST_OF_NAME} media already")
    if sum(sizes[other] for other in others) + size > _MOST_BYTES_OF_JOB:
        raise LeftOut(f"the media of the job have {_MOST_BYTES_OF_JOB} bytes already")


def _stem(name: str, step: int | None) -> str:
    """The path of a file below `media`, without its ending."""
    if not isinstance(name, str):
        raise TypeError(f"name must be a text, not {name!r:.60}")
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is no name: letters, digits and _.@-, in parts divided by /, at most {_LONGEST_NAME} characters"
        )
    return f"{name}/{_WHOLE if step is None else format(count('step', step), '010d')}"


def _read(path: Any) -> bytes:
    with open(path, "rb") as file:
        return file.read(MOST_BYTES + 1)


def _write(path: Path, content: bytes) -> None:
    """Give a file its name when it is complete: others may read it at any time. Without content there is none."""
    if not content:
        _remove(path)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}")
    unfinished.write_bytes(content)
    unfinished.replace(path)


def _remove(path: Path) -> None:
    if path.exists():
        path.unlink()


_media = Media(artifacts_folder, rank)
image, audio, histogram, table = _media.image, _media.audio, _media.histogram, _media.table
confusion_matrix, curve, roc, pr = _media.confusion_matrix, _media.curve, _media.roc, _media.pr
