"""How two jobs differ: their code, their specs and their results. Called by `hora diff`."""

import difflib
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hora.errors import Json
from hora.service import Service
from hora.service.sending_code import fetch_code

_MOST_BYTES = 512 * 1024  # of a file whose lines are compared


def compare(client: Service, job_ids: tuple[str, str]) -> Json:
    """What differs: `{jobs, code: {digests, added, removed, changed, binary, diff}, spec, results}`.

    In `spec` and `results` each field that differs has its two values. `binary` are the changed files whose lines
    cannot be shown; `diff` has those of the others.
    """
    jobs = [client.job(job_id) for job_id in job_ids]
    return {
        "jobs": [job["id"] for job in jobs],
        "code": _code_difference(client, jobs),
        "spec": _differing([_settings(job["spec"]) for job in jobs]),
        "results": _differing([_results(job) for job in jobs]),
    }


def _settings(spec: Json) -> dict[str, Any]:
    """The fields of a spec by dotted name, without its code. A plain name counts as the object that it stands for."""
    from jobs.model.spec import SHORTHAND

    parts = {name: {SHORTHAND[name]: spec[name]} for name in SHORTHAND if isinstance(spec.get(name), str)}
    return _flat({**spec, **parts, "code": None})


def _code_difference(client: Service, jobs: list[Json]) -> Json:
    digests = [job.get("code") for job in jobs]
    if digests[0] == digests[1]:
        files: list[dict[str, str]] = [{}, {}]
    else:
        views = [client.code(digest)["files"] if digest else [] for digest in digests]
        files = [{file["path"]: file["sha256"] for file in view} for view in views]
    old, new = files
    changed = sorted(path for path in old.keys() & new.keys() if old[path] != new[path])
    added, removed = sorted(new.keys() - old.keys()), sorted(old.keys() - new.keys())
    with ExitStack() as stack:
        folders = [_unpacked(client, digest, stack) if any(files) else None for digest in digests]
        binary: list[str] = []
        diff: list[str] = []
        for path in sorted([*changed, *added, *removed]):
            before, after = (_lines(folder, path) for folder in folders)
            if before is None or after is None:
                binary.append(path)
                continue
            old_name, new_name = (f"{job['id']}/{path}" for job in jobs)
            diff += difflib.unified_diff(before, after, old_name, new_name, lineterm="")
    named = {"added": added, "removed": removed, "changed": changed, "binary": binary}
    return {"digests": digests, **named, "diff": "\n".join(diff)}


def _unpacked(client: Service, digest: str | None, stack: ExitStack) -> Path | None:
    if digest is None:
        return None
    return fetch_code(client, digest, Path(stack.enter_context(tempfile.TemporaryDirectory())) / "code")


def _lines(folder: Path | None, path: str) -> list[str] | None:
    """The lines of a file; none if there is no such file. None if it is no text, or too long to compare."""
    file = folder / path if folder is not None else None
    if file is None or not file.exists():
        return []
    if file.stat().st_size > _MOST_BYTES:
        return None
    try:
        text = file.read_bytes().decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text.splitlines()


def _results(job: Json) -> dict[str, Any]:
    summary = {name: value for name, value in (job.get("summary") or {}).items() if name != "metrics"}
    ends = {"status": job["status"], "end_reason": job["end_reason"], "error": job["error"]}
    return {**ends, **_flat({"metrics": job.get("metrics") or {}}), **summary}


def _flat(document: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """The fields of a document by dotted name. An empty object has none."""
    fields: dict[str, Any] = {}
    for name, value in document.items():
        if isinstance(value, Mapping):
            fields |= _flat(value, f"{above}{name}.")
        else:
            fields[f"{above}{name}"] = value
    return fields


def _differing(documents: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The fields that differ, with the value of each document; null where it has none."""
    names = dict.fromkeys(name for document in documents for name in document)
    values = {name: [document.get(name) for document in documents] for name in names}
    return {name: both for name, both in values.items() if both[0] != both[1]}
