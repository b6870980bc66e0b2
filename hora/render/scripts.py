"""What the command line shows of scripts: what ran, its files, and how two jobs differ. From the API's JSON; pure."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from hora.errors import Json
from hora.render.specs import command_line, commit_text
from hora.render.tables import facts, table_of
from hora.render.text import count, plain

_STYLES = {"+": "green", "-": "red", "@": "cyan"}  # of the lines of a diff, by how they begin


def code_facts(code: Json, job: Json | None) -> Table:
    """An archive of code, and the job that ran it."""
    spec = (job or {}).get("spec") or {}
    rows: dict[str, object] = {}
    if job is not None:
        rows = {
            "job": f"{plain(job['id'])} ({plain(job['name'])})",
            "sent by": plain(job["owner"]),
            "command": command_line(spec),
            "params": plain(json.dumps(spec["params"])) if spec.get("params") else None,
            "environment": plain(spec.get("environment")),
            "git": commit_text(job.get("labels") or {}),
        }
    size = f"{_counted(code['unpacked_bytes'], 'byte')} in {_counted(len(code['files']), 'file')}"
    return facts({**rows, "code": plain(code["digest"]), "size": size})


def _counted(number: int, noun: str) -> str:
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def files_table(files: Iterable[Json]) -> Table:
    """One line a file."""
    table = table_of("BYTES>", "FILE")
    for file in files:
        table.add_row(count(file["size_bytes"]), plain(file["path"]))
    return table


def code_changes(code: Json) -> Text:
    """The files that differ between two jobs, a line each, and then their lines."""
    lines = [f"{kind:8} {plain(path)}" for kind in ("added", "removed", "changed") for path in code[kind]]
    lines += [f"binary   {plain(path)}" for path in code["binary"]]
    text = Text("\n".join(lines))
    for line in code["diff"].splitlines():
        text.append("\n" + plain(line), style=_STYLES.get(line[:1], ""))
    return text


def fields_table(differing: Mapping[str, list[Any]], job_ids: Iterable[str]) -> Table:
    """One line a field, with its value in each of two jobs."""
    table = table_of("FIELD", *map(plain, job_ids))
    for field, values in differing.items():
        rounded = [float(f"{value:.6g}") if isinstance(value, float) else value for value in values]
        shown = rounded if rounded[0] != rounded[1] else values  # all digits if only the last ones differ
        table.add_row(plain(field), *(_value(value) for value in shown))
    return table


def _value(value: Any) -> str:
    return "-" if value is None else plain(value if isinstance(value, str) else json.dumps(value))
