"""Texts for tests, which every machine with Python has: docstrings of the standard library."""

import importlib
import inspect
from pathlib import Path

import pyarrow as pa

from tests.tables import write

# Modules about similar things, so that it takes some words to tell them apart.
GROUPS = {
    "data": ("array", "bisect", "collections", "copy", "datetime", "decimal", "fractions", "heapq", "statistics"),
    "files": ("csv", "glob", "gzip", "io", "os", "pathlib", "shutil", "tarfile", "tempfile", "zipfile"),
    "network": ("email.message", "ftplib", "http.client", "http.server", "imaplib", "smtplib", "socket", "ssl"),
    "running": ("asyncio", "concurrent.futures", "multiprocessing", "queue", "selectors", "subprocess", "threading"),
    "tools": ("ast", "dis", "doctest", "inspect", "logging", "pdb", "traceback", "unittest"),
}


def docstrings() -> dict[str, str]:
    """The group of each distinct docstring in those modules."""
    group_of: dict[str, str] = {}
    for group, modules in GROUPS.items():
        for name in modules:
            module = importlib.import_module(name)
            for thing in list(vars(module).values()):
                members = list(vars(thing).values()) if inspect.isclass(thing) else []
                for member in (thing, *members):
                    if isinstance(text := getattr(member, "__doc__", None), str) and text.strip():
                        group_of.setdefault(text, group)
    return group_of


def write_texts(path: Path, texts: dict[str, str], *, groups: int = 4) -> Path:
    """A Parquet file with each text and its label, in some row groups."""
    table = pa.table({"text": list(texts), "label": list(texts.values())})
    return write(path, table, [len(table) // groups] * groups)
