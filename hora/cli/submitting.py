"""Submits a job, or shows what it would be. Used by `hora submit`, `run`, `clone` and `studies train-best`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hora.cli.output import display, print_json, say, tell

if TYPE_CHECKING:
    from hora.errors import Json
    from hora.service import Service
    from hora.service.code_folders import CodeSource


def submit_document(
    document: "Json",
    archives: "Sequence[CodeSource]",
    *,
    dry_run: bool,
    wait: bool,
    timeout_s: float | None,
    as_json: bool,
) -> None:
    """Send the archives, and submit a spec that may name them. With `wait` it exits as `watch_job` does.

    A person sees the warnings of a dry run too.
    """
    from hora.cli.spec_code import send_packed
    from hora.connection import connect

    with connect() as client:
        send_packed(client, archives)
        if dry_run:
            show_preview(client.dry_run(document), as_json)
            return
        preview = None if as_json else client.dry_run(document)
        job = client.submit(document)
        if preview is not None:  # a refusal says by itself what is wrong
            _say_warnings(preview)
        _tell_or_watch(client, job, wait=wait, timeout_s=timeout_s, as_json=as_json)


def submit_continued(
    checkpoint: str, changes: "Json", *, dry_run: bool, wait: bool, timeout_s: float | None, as_json: bool
) -> None:
    """Submit a job that continues another one, `ID` or `ID@EPOCH`, by a clone of that job with changes.

    Both may be written as in a spec, with `job:` before them.
    """
    from hora.connection import connect

    checkpoint = checkpoint.removeprefix("job:")
    job_id = checkpoint.partition("@")[0]
    changes = {**changes, "continue_from": f"job:{checkpoint}"}
    with connect() as client:
        if dry_run:
            show_preview(client.dry_run_clone(job_id, changes), as_json)
            return
        _tell_or_watch(client, client.clone(job_id, changes), wait=wait, timeout_s=timeout_s, as_json=as_json)


def _tell_or_watch(client: "Service", job: "Json", *, wait: bool, timeout_s: float | None, as_json: bool) -> None:
    from hora.cli.watch import watch_job

    if wait:
        watch_job(client, job["id"], as_json, timeout_s)
    elif as_json:
        print_json(job)
    else:
        tell(job["id"])
        say(f"Watch it with `hora show {job['id']} --wait`.")


def submit_clone(client: "Service", job_id: str, changes: "Json", *, dry_run: bool, as_json: bool) -> None:
    """Submit a job's spec again with changes, which may have code in a folder."""
    from hora.cli.spec_code import clear_old_commit, pack_code, send_packed

    send_packed(client, pack_code(changes))
    if "code" in changes:
        clear_old_commit(changes, client.job(job_id))
    if dry_run:
        show_preview(client.dry_run_clone(job_id, changes), as_json)
        return
    job = client.clone(job_id, changes)
    print_json(job) if as_json else tell(job["id"])


def show_preview(preview: "Json", as_json: bool) -> None:
    """Show the plan and the expected time of a submission."""
    from hora.render.quote import preview_table

    if as_json:
        print_json(preview)
        return
    display(preview_table(preview))
    _say_warnings(preview)


def _say_warnings(preview: "Json") -> None:
    from hora.render.quote import warning_lines

    for line in warning_lines(preview):
        say(line)
