"""Cells and their figures in words, for the findings of a study. Pure; called by `findings`."""

from collections.abc import Mapping, Sequence
from typing import Any

from jobs.model.gpu_time import slots_text
from jobs.views.studies import CellReport

_PHRASES = {
    "batch_size": "batch {}",
    "learning_rate": "learning rate {}",
    "dataset.fraction": "{} of the data",
}
_NAMED_BY_VALUE = frozenset({"dataset", "dataset.source", "model", "model.name"})


def where(cell: CellReport, *without: str) -> str:
    """The values of a cell, as the beginning of a sentence about it: "Batch 64: ", or nothing."""
    values = values_of(cell, *without)
    return f"{capitalized(values)}: " if values else ""


def values_of(cell: CellReport, *without: str) -> str:
    """The values of a cell but for its GPUs and the fields `without`: batch 64, learning rate 0.1."""
    return ", ".join(phrase(field, value) for field, value in cell.values.items() if field not in ("gpus", *without))


def capitalized(text: str) -> str:
    """The text with a large letter, unless it begins with the name of a field."""
    return text[0].upper() + text[1:] if text.startswith(("batch ", "learning rate ", "all of ")) else text


def phrase(field: str, value: Any) -> str:
    """A value of a field: batch 64."""
    if field == "dataset.fraction" and value == 1:
        return "all of the data"
    text = value if isinstance(value, str) else _object(value) if isinstance(value, dict) else _plain(value)
    return text if field in _NAMED_BY_VALUE else _PHRASES.get(field, field + " {}").format(text)


def _object(value: Mapping[str, Any]) -> str:
    return " ".join(f"{key} {_plain(inner)}" for key, inner in value.items())


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else "none" if value is None else str(value)


def slot_count(cell: CellReport) -> str:
    """2 GPUs, or 2 CPU slots where its jobs ran on them."""
    return slots_text(cell.gpus, cell.device or cell.values.get("device"))


def host_count(cell: CellReport) -> str:
    """2 hosts."""
    return counted(cell.hosts or 0, "host")


def counted(count: int, noun: str) -> str:
    """1 repeat, 2 repeats."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def percent(share: float) -> str:
    """12 %."""
    return f"{short(100 * share)} %"


def listed(texts: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))


def times(ratio: float) -> str:
    """1.5x."""
    return f"{short(ratio)}x"


def short(value: float | None) -> str:
    """A figure with two digits, or a large one without a fraction."""
    return "unknown" if value is None else f"{value:,.0f}" if abs(value) >= 99.5 else f"{value:.2g}"
