"""What the command line shows of datasets: tables, from the API's JSON. Pure."""

from collections.abc import Iterable
from datetime import datetime

from rich.table import Table
from rich.text import Text

from hora.errors import Json
from hora.render.jobs import learned
from hora.render.tables import facts, table_of
from hora.render.text import ago, count, plain

_STYLES = {"ready": "green", "invalid": "bold red", "validating": "yellow"}
_MOST_CLASSES = 12


def datasets_table(datasets: Iterable[Json], now: datetime | None = None) -> Table:
    """One line a name, with its newest version."""
    table = table_of(
        "DATASET", "STATUS", "FORMAT?", "SAMPLES>", "TEST>?", "LEARNS…", "SHAPE?", "REGISTERED?", "DESCRIPTION…"
    )
    for dataset in datasets:
        name = plain(dataset["name"]) + (f"@{dataset['version']}" if dataset.get("version") else "")
        table.add_row(
            name,
            _status(dataset["status"]),
            plain(dataset["format"] or "-"),
            count(dataset["trainable"]),
            count(dataset["test"]),
            learned(dataset["classes"], dataset.get("targets")),
            _shape(dataset["shape"]),
            "built in" if dataset["builtin"] else ago(dataset["created_at"], now),
            plain(dataset["error"] or dataset["description"] or "-"),
        )
    return table


def versions_table(versions: Iterable[Json], now: datetime | None = None) -> Table:
    """One line a version."""
    table = table_of("VERSION", "STATUS", "SAMPLES>", "TEST>?", "LEARNS…", "BYTES>?", "REGISTERED?", "BY", "SOURCE…")
    for version in versions:
        data_facts = version["facts"] or {}
        table.add_row(
            f"{plain(version['name'])}@{version['version']}",
            _status(version["status"]),
            count(data_facts.get("samples")),
            count(data_facts.get("test")),
            learned(len(data_facts["classes"]), data_facts.get("targets")) if data_facts else "-",
            count(data_facts.get("bytes")),
            ago(version["created_at"], now),
            plain(version["created_by"]),
            plain(version["error"] or ("uploaded" if version["upload_id"] else version["source"])),
        )
    return table


def version_facts(version: Json, now: datetime | None = None) -> Table:
    """All of one version."""
    data_facts = version["facts"] or {}
    rows: dict[str, object] = {
        "dataset": f"{plain(version['name'])}@{version['version']}",
        "description": plain(version["description"]) if version["description"] else None,
        "status": _status(version["status"]),
        "why": plain(version["error"]) if version["error"] else None,
        "source": plain(version["source"]) + (" (uploaded)" if version["upload_id"] else ""),
        "read as": ", ".join(
            f"{name} {plain(value)}" for name, value in version["options"].items() if value is not None
        ),
        "registered": f"{ago(version['created_at'], now)} by {plain(version['created_by'])}",
    }
    if data_facts:
        rows |= {
            "format": f"{plain(data_facts['format'])}, {_samples(data_facts)}",
            "samples": ", ".join(f"{count(data_facts[part])} {part}" for part in ("train", "validation", "test")),
            "task": plain(data_facts.get("task", "classification")),
            "targets": data_facts.get("targets") or None,
            "classes": _classes(data_facts["class_counts"]) or None,
            "damaged": count(data_facts["damaged"]) if data_facts["damaged"] else None,
            "warning": "\n".join(map(plain, data_facts.get("warnings") or [])) or None,
            "files": f"{count(data_facts['files'])} with {count(data_facts['bytes'])} bytes",
            "fingerprint": plain(version["fingerprint"]),
        }
    return facts(rows)


def _status(status: str) -> Text:
    return Text(plain(status), style=_STYLES.get(status, ""))


def _shape(shape: list[int] | None) -> str:
    return "x".join(map(str, shape)) if shape else "-"


def _samples(data_facts: Json) -> str:
    shape, words = _shape(data_facts["shape"]), data_facts.get("words")
    return f"samples of {shape}" if words is None else f"texts of up to {shape} words, a vocabulary of {count(words)}"


def _classes(counts: dict[str, int]) -> str:
    shown = [f"{plain(name)} {times}" for name, times in list(counts.items())[:_MOST_CLASSES]]
    more = len(counts) - len(shown)
    return ", ".join(shown) + (f", and {more} more" if more else "")
