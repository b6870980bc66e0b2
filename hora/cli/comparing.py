"""How two jobs differ: their code, their specs and their results. Called by `hora diff`."""

from collections.abc import Mapping
from typing import Any

from hora.errors import Json
from hora.service import Service

_CHANGES = ("added", "removed", "changed")


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
    before, after = digests = [job.get("code") for job in jobs]
    files: list[Json] = []
    if before and after and before != after:
        files = client.code_difference(before, after)["files"]
    elif before != after:  # one of the jobs runs no code: no lines to compare
        digest, change = (before, "removed") if before else (after, "added")
        files = [{"path": file["path"], "change": change, "hunks": ""} for file in client.code(str(digest))["files"]]
    of = {change: [file["path"] for file in files if file["change"] == change] for change in _CHANGES}
    binary = [file["path"] for file in files if file["hunks"] is None]
    old_id, new_id = (job["id"] for job in jobs)
    diff = [
        f"--- {old_id}/{file['path']}\n+++ {new_id}/{file['path']}\n{file['hunks']}" for file in files if file["hunks"]
    ]
    return {"digests": digests, **of, "binary": binary, "diff": "\n".join(diff)}


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
