"""What the command line shows of datasets: tables, from the API's JSON. Pure."""

from collections.abc import Iterable
from datetime import datetime

from rich.table import Table
from rich.text import Text

from hora.errors import Json
from hora.render.jobs import facts, table_of
from hora.render.text import ago, count, plain

_STYLES = {"ready": "green", "invalid": "bold red", "validating": "yellow"}
_MOST_CLASSES = 12


def datasets_table(datasets: Iterable[Json], now: datetime | None = None) -> Table:
    """One line a name, with its newest version."""
    table = table_of(
        "DATASET", "STATUS", "FORMAT", "SAMPLES>", "TEST>", "CLASSES>", "SHAPE", "REGISTERED", "DESCRIPTION"
    )
    for one in datasets:
        name = plain(one["name"]) + (f"@{one['version']}" if one.get("version") else "")
        table.add_row(
            name,
            _status(one["status"]),
            plain(one["format"] or "-"),
            count(one["trainable"]),
            count(one["test"]),
            count(one["classes"]),
            _shape(one["shape"]),
            "built in" if one["builtin"] else ago(one["created_at"], now),
            plain(one["error"] or one["description"] or "-"),
        )
    return table


def versions_table(versions: Iterable[Json], now: datetime | None = None) -> Table:
    """One line a version."""
    table = table_of("VERSION", "STATUS", "SAMPLES>", "TEST>", "CLASSES>", "BYTES>", "REGISTERED", "BY", "SOURCE")
    for one in versions:
        found = one["facts"] or {}
        table.add_row(
            f"{plain(one['name'])}@{one['version']}",
            _status(one["status"]),
            count(found.get("samples")),
            count(found.get("test")),
            count(len(found["classes"])) if found else "-",
            count(found.get("bytes")),
            ago(one["created_at"], now),
            plain(one["created_by"]),
            plain(one["error"] or ("uploaded" if one["upload_id"] else one["source"])),
        )
    return table


def version_facts(version: Json, now: datetime | None = None) -> Table:
    """All of one version."""
    found = version["facts"] or {}
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
    if found:
        rows |= {
            "format": f"{plain(found['format'])}, samples of {_shape(found['shape'])}",
            "samples": ", ".join(f"{count(found[part])} {part}" for part in ("train", "validation", "test")),
            "classes": _classes(found["class_counts"]),
            "damaged": count(found["damaged"]) if found["damaged"] else None,
            "files": f"{count(found['files'])} with {count(found['bytes'])} bytes",
            "fingerprint": plain(version["fingerprint"]),
        }
    return facts(rows)


def _status(status: str) -> Text:
    return Text(plain(status), style=_STYLES.get(status, ""))


def _shape(shape: list[int] | None) -> str:
    return "x".join(map(str, shape)) if shape else "-"


def _classes(counts: dict[str, int]) -> str:
    told = [f"{plain(name)} {times}" for name, times in list(counts.items())[:_MOST_CLASSES]]
    more = len(counts) - len(told)
    return ", ".join(told) + (f", and {more} more" if more else "")
