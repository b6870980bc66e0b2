"""Cells and their figures in words, for the findings of a study. Pure; called by `findings`."""

from collections.abc import Mapping
from typing import Any

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
    return text[0].upper() + text[1:] if text.startswith(("batch ", "learning rate ")) else text


def phrase(field: str, value: Any) -> str:
    """A value of a field: batch 64."""
    text = value if isinstance(value, str) else _object(value) if isinstance(value, dict) else _plain(value)
    return text if field in _NAMED_BY_VALUE else _PHRASES.get(field, field + " {}").format(text)


def _object(value: Mapping[str, Any]) -> str:
    return " ".join(f"{key} {_plain(inner)}" for key, inner in value.items())


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else "none" if value is None else str(value)


def gpu_count(count: int) -> str:
    """2 GPUs."""
    return f"{count} GPU{'' if count == 1 else 's'}"


def slot_count(cell: CellReport) -> str:
    """2 GPUs, or 2 CPU slots where the grid says so."""
    if cell.values.get("device") == "cpu":
        return f"{cell.gpus} CPU slot{'' if cell.gpus == 1 else 's'}"
    return gpu_count(cell.gpus)


def host_count(cell: CellReport) -> str:
    """2 hosts."""
    return f"{cell.hosts} host{'' if cell.hosts == 1 else 's'}"


def times(ratio: float) -> str:
    """1.5x."""
    return f"{short(ratio)}x"


def short(value: float | None) -> str:
    """A figure with two digits, or a large one without a fraction."""
    return "unknown" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2g}"
