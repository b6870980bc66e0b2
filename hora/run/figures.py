"""Turns what a script logs into the content of files: pictures, sounds, histograms, tables, matrices, curves. Pure.

Called by `hora.run.media`. For Python 3.9 and newer. It needs NumPy for all but tables and files, and imports it then.
"""

from __future__ import annotations

import io
import itertools
import math
import struct
import wave
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MOST_ROWS = 10_000
_MOST_POINTS = 2_000  # of a line
_MOST_CLASSES = 500
_MOST_BINS = 512
_LONGEST_CELL = 1_000
_PICTURES = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpg"}
_SOUNDS = {b"OggS": "ogg", b"fLaC": "flac", b"ID3": "mp3", b"\xff\xfb": "mp3"}
_COLOUR_TYPES = {1: 0, 3: 2, 4: 6}  # of PNG, by channels

Json = dict[str, Any]
Lines = list[Json]


class LeftOut(Exception):
    """A limit, or data with nothing to show. The script is told with a warning, and goes on."""


def array(values: Any) -> Any:
    """A NumPy array of what a script has: lists, arrays, tensors of TensorFlow and PyTorch, on any device."""
    import numpy as np

    if hasattr(values, "detach"):
        values = values.detach().cpu()
    return np.asarray(values)


def _floats(name: str, values: Any) -> Any:
    """The same as floats. Raises `ValueError` for what is no number."""
    import numpy as np

    try:
        return array(values).astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be numbers: {error}") from None


# ---- pictures and sounds


def picture(image: Any) -> tuple[str, bytes]:
    """The ending and the content of a picture: of an array, of a file, of a figure of matplotlib, or of Pillow's image.

    Arrays are `(height, width)`, `(height, width, channel)` with 1, 3 or 4 channels, of uint8, booleans, or floats from
    0 to 1. Raises `TypeError`, `ValueError`, `OSError`.
    """
    save = getattr(image, "savefig", None) or getattr(image, "save", None)
    if save is None:
        return "png", _png(_pixels(image))
    file = io.BytesIO()
    save(file, format="png")
    return "png", file.getvalue()


def picture_of_file(content: bytes) -> str:
    """The ending of a picture's file. Raises `ValueError` if it is of no kind that browsers show."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "webp"
    return _ending(content, _PICTURES, "a PNG, JPEG or WebP file")


def _ending(content: bytes, known: Mapping[bytes, str], wanted: str) -> str:
    ending = next((ending for start, ending in known.items() if content.startswith(start)), None)
    if ending is None:
        raise ValueError(f"it must be {wanted}; this one begins with {content[:12]!r}")
    return ending


def _pixels(image: Any) -> Any:
    """Bytes of `(height, width, channel)`."""
    import numpy as np

    pixels = array(image)
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    if pixels.ndim != 3 or pixels.shape[2] not in _COLOUR_TYPES or 0 in pixels.shape:
        raise ValueError(
            f"an image has the shape (height, width), or (height, width, channel) with 1, 3 or 4 channels, "
            f"not {array(image).shape}"
        )
    if pixels.dtype == np.uint8:
        return pixels
    if pixels.dtype.kind not in "bf":
        raise TypeError(f"an image is of uint8, or of floats from 0 to 1, not of {pixels.dtype}")
    return (np.clip(np.nan_to_num(pixels.astype(np.float32)), 0, 1) * 255).round().astype(np.uint8)


def _png(pixels: Any) -> bytes:
    """PNG (ISO/IEC 15948): a header, the rows with no filter before each, and an end."""
    import numpy as np

    height, width, channels = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, width * channels)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b""))
    chunks = (
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def sound_of_file(content: bytes) -> str:
    """The ending of a sound's file. Raises `ValueError` if it is of no kind that browsers play."""
    if content[:4] == b"RIFF" and content[8:12] == b"WAVE":
        return "wav"
    return _ending(content, _SOUNDS, "a WAV, MP3, Ogg or FLAC file")


def sound(samples: Any, rate: int) -> bytes:
    """A WAV file of 16 bits. Samples are `(time,)` or `(time, channel)`, of int16 or floats from -1 to 1."""
    import numpy as np

    values = array(samples)
    if values.ndim not in (1, 2) or 0 in values.shape or (values.ndim == 2 and values.shape[1] > 8):
        raise ValueError(f"samples have the shape (time,) or (time, channel), not {values.shape}")
    if values.dtype != np.int16:
        values = (np.clip(np.nan_to_num(_floats("samples", values)), -1, 1) * 32767).round().astype(np.int16)
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(1 if values.ndim == 1 else values.shape[1])
        written.setsampwidth(2)
        written.setframerate(rate)
        written.writeframes(values.astype("<i2").tobytes())
    return file.getvalue()


# ---- histograms and tables


def histogram(values: Any, bins: int) -> Json:
    """How many of the values are in each of `bins` equal intervals. Values that are not finite are left out."""
    import numpy as np

    if not 1 <= bins <= _MOST_BINS:
        raise ValueError(f"bins must be from 1 to {_MOST_BINS}, not {bins}")
    numbers = _floats("values", values).ravel()
    numbers = numbers[np.isfinite(numbers)]
    if not numbers.size:
        raise LeftOut("it has no finite values")
    low, high = float(numbers.min()), float(numbers.max())
    if not math.isfinite(high - low):
        raise LeftOut("its values are too far apart")
    if high - low <= 1e-9 * max(abs(low), abs(high)):  # NumPy cannot divide so small a range
        half = max(abs(low), 1.0) / 2
        low, high = low - half, high + half
    counts, edges = np.histogram(numbers, bins, (low, high))
    return {"counts": counts.tolist(), "edges": _numbers(edges)}


def table(columns: Iterable[Any], rows: Iterable[Iterable[Any]]) -> Json:
    """At most the first `MOST_ROWS` rows. Cells are texts, numbers, booleans or None; all others become texts."""
    names = [str(column) for column in columns]
    if len(set(names)) < len(names) or not names:
        raise ValueError(f"a table needs columns with different names, not {names!r:.200}")
    kept = [[_cell(value) for value in row] for row in itertools.islice(rows, MOST_ROWS)]
    for index, row in enumerate(kept):
        if len(row) != len(names):
            raise ValueError(f"row {index} has {len(row)} cells, and there are {len(names)} columns")
    return {"columns": names, "rows": kept}


def _cell(value: Any) -> Any:
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # a scalar of NumPy or of PyTorch
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = str(value)
    return text if len(text) <= _LONGEST_CELL else text[: _LONGEST_CELL - 1] + "…"


def _numbers(values: Any) -> list[float | None]:
    """Numbers for JSON, with nine digits. None stands for what is not finite."""
    return [float(f"{value:.9g}") if math.isfinite(value) else None for value in values.tolist()]


# ---- matrices and curves


def confusion_matrix(truth: Any, predicted: Any, labels: Sequence[Any] | None) -> Json:
    """How often each class (a row) was taken for each (a column).

    Classes are whole numbers or texts. Of scores `(sample, class)` the highest one counts.
    """
    import numpy as np

    true, guessed = _classes("truth", truth), _classes("predicted", predicted)
    if len(true) != len(guessed):
        raise ValueError(f"truth has {len(true)} samples, and predicted {len(guessed)}")
    if not len(true):
        raise LeftOut("it has no samples")
    if labels is None:
        known, places = np.unique(np.concatenate([true, guessed]), return_inverse=True)
        names = [str(name) for name in known.tolist()]
    else:
        names = [str(label) for label in labels]
        places = np.concatenate([_places("truth", true, names), _places("predicted", guessed, names)])
    count = len(names)
    if count > _MOST_CLASSES:
        raise LeftOut(f"it has {count} classes, and {_MOST_CLASSES} are the most")
    pairs = places[: len(true)] * count + places[len(true) :]
    return {"labels": names, "counts": np.bincount(pairs, minlength=count * count).reshape(count, count).tolist()}


def _classes(name: str, values: Any) -> Any:
    classes = array(values)
    if classes.ndim == 2 and classes.shape[1] > 1:
        classes = classes.argmax(axis=1)
    classes = classes.ravel()
    if classes.dtype.kind == "f":
        if not (classes == classes.round()).all():
            raise ValueError(f"{name} must be classes, not scores: give `{name} > 0.5`, for example")
        classes = classes.astype(int)
    return classes.astype(int) if classes.dtype.kind == "b" else classes


def _places(name: str, classes: Any, labels: Sequence[str]) -> Any:
    """The place of each class among the labels."""
    import numpy as np

    if classes.dtype.kind in "iu":
        if classes.min() < 0 or classes.max() >= len(labels):
            wrong = classes.min() if classes.min() < 0 else classes.max()
            raise ValueError(f"{name} has the class {wrong}; the labels are of 0 to {len(labels) - 1}")
        return classes.astype(int)
    places = {label: place for place, label in enumerate(labels)}
    unknown = sorted({str(label) for label in classes.tolist()} - places.keys())
    if unknown:
        raise ValueError(f"{name} has the class {unknown[0]!r}, which is not among the labels")
    return np.array([places[str(label)] for label in classes.tolist()])


def curve(x: Any, y: Any, x_name: str, y_name: str) -> Json:
    """One line, or with a dictionary several lines by name, over `x`. Sorted by `x`."""
    import numpy as np

    xs = _floats("x", x).ravel()
    if not xs.size:
        raise LeftOut("it has no points")
    lines = []
    order = np.argsort(xs, kind="stable")
    for name, values in (y if isinstance(y, Mapping) else {y_name: y}).items():
        ys = _floats(str(name), values).ravel()
        if len(ys) != len(xs):
            raise ValueError(f"{name} has {len(ys)} values, and x has {len(xs)}")
        lines.append(_line(str(name), xs[order], ys[order]))
    if not lines:
        raise LeftOut("it has no lines")
    return {"x_name": str(x_name), "y_name": str(y_name), "lines": lines}


def _line(name: str, xs: Any, ys: Any) -> Json:
    """A line with at most `_MOST_POINTS` of its points, evenly chosen."""
    import numpy as np

    chosen = np.unique(np.linspace(0, len(xs) - 1, min(len(xs), _MOST_POINTS)).round().astype(int))
    return {"name": name, "x": _numbers(xs[chosen]), "y": _numbers(ys[chosen])}


def roc(truth: Any, scores: Any, labels: Sequence[Any] | None) -> Json:
    """The true positive rate over the false positive rate, for all thresholds, with the area under the curve.

    Fawcett, "An introduction to ROC analysis", Pattern Recognition Letters 27 (2006): algorithms 1 and 2.
    """
    lines: Lines = []
    for name, positives, negatives in _tallies(truth, scores, labels):
        x, y = negatives / negatives[-1], positives / positives[-1]
        area = float((x[1:] - x[:-1]) @ (y[1:] + y[:-1]) / 2)
        lines.append(_line(f"{name}AUC {area:.3f}", x, y))
    return {"x_name": "false positive rate", "y_name": "true positive rate", "lines": _some(lines)}


def pr(truth: Any, scores: Any, labels: Sequence[Any] | None) -> Json:
    """The precision over the recall, for all thresholds, with the average precision.

    AP = sum of (R_n - R_n-1) P_n, without interpolation between points: Davis and Goadrich, "The relationship between
    precision-recall and ROC curves", ICML 2006. At recall 0 the precision is 1, as in scikit-learn.
    """
    import numpy as np

    lines: Lines = []
    for name, positives, negatives in _tallies(truth, scores, labels):
        x = positives / positives[-1]
        y = np.concatenate([[1.0], positives[1:] / (positives[1:] + negatives[1:])])
        lines.append(_line(f"{name}AP {float((x[1:] - x[:-1]) @ y[1:]):.3f}", x, y))
    return {"x_name": "recall", "y_name": "precision", "lines": _some(lines)}


def _some(lines: Lines) -> Lines:
    if not lines:
        raise LeftOut("it needs samples of both classes")
    return lines


def _tallies(truth: Any, scores: Any, labels: Sequence[Any] | None) -> Iterable[tuple[str, Any, Any]]:
    """How many positive and negative samples have a score above each threshold, from none to all.

    Scores `(sample, class)` give one tally for each class against all others. A class without samples has none.
    """
    import numpy as np

    classes, values = _classes("truth", truth), _floats("scores", scores)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim not in (1, 2) or len(values) != len(classes):
        raise ValueError(
            f"scores of {len(classes)} samples have the shape (sample,) or (sample, class), not {values.shape}"
        )
    if np.isnan(values).any():
        raise LeftOut("its scores are not all numbers")
    if values.ndim == 1:
        names = None if labels is None else [str(label) for label in labels]
        places = classes if names is None else _places("truth", classes, names)
        if not set(np.unique(places).tolist()) <= {0, 1}:
            raise ValueError("truth must be 0 or 1 for each sample; for more classes give scores (sample, class)")
        yield from _tally("", places == 1, values)
        return
    names = [str(label) for label in (range(values.shape[1]) if labels is None else labels)]
    if len(names) != values.shape[1]:
        raise ValueError(f"scores are of {values.shape[1]} classes, and there are {len(names)} labels")
    places = _places("truth", classes, names)
    for place, name in enumerate(names):
        yield from _tally(f"{name}, ", places == place, values[:, place])


def _tally(name: str, is_positive: Any, scores: Any) -> Iterable[tuple[str, Any, Any]]:
    import numpy as np

    order = np.argsort(-scores, kind="stable")
    last_of_score = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))
    positives = np.cumsum(is_positive[order])[last_of_score]
    negatives = last_of_score + 1 - positives
    if len(scores) and positives[-1] and negatives[-1]:
        yield name, np.append(0, positives), np.append(0, negatives)
