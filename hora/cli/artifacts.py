"""`hora artifacts`: the files of a job, and its checkpoints in the store. Part of `hora.cli.app`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hora.cli.checkpoints import fetch_all, fetch_one, list_checkpoints
from hora.cli.options import AsJson, JobId
from hora.cli.output import display, print_json, say, tell
from hora.errors import HoraError, NotFound

if TYPE_CHECKING:
    from hora.service import Service

app = typer.Typer()


@app.command()
def artifacts(
    job_id: JobId,
    patterns: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATTERN]...", help="Only files whose path matches one of these, such as '*.h5'."),
    ] = None,
    download: Annotated[
        str | None,
        typer.Option(
            "--download",
            metavar="PATH",
            help="Download this file, by its path in the list. With --checkpoints: a step, newest or best.",
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Download all files that match, or all checkpoints.")
    ] = False,
    checkpoints: Annotated[
        bool, typer.Option("--checkpoints", help="List or download the checkpoints that are in the store.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="The file to write; with --all or --checkpoints a folder. Default: the file's name, or the job's id.",
        ),
    ] = None,
    remove: Annotated[
        bool, typer.Option("--rm", help="Remove all files and the checkpoints of a job that has ended.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the files of a job or its checkpoints, download or remove them. Broken downloads continue."""
    from hora.connection import connect

    _check_options(patterns, download, everything=everything, output=output, remove=remove, checkpoints=checkpoints)
    with connect() as client:
        if remove:
            client.remove_artifacts(job_id)
            print_json({"removed": job_id}) if as_json else tell(f"The files of {job_id} are removed")
        elif download is not None:
            _tell_saved((fetch_one if checkpoints else _fetch_file)(client, job_id, download, output), as_json=as_json)
        elif everything and checkpoints:
            _tell_saved(fetch_all(client, job_id, output), as_json=as_json)
        elif everything:
            _tell_saved(_fetch_files(client, job_id, output, patterns or []), as_json=as_json)
        elif checkpoints:
            list_checkpoints(client, job_id, as_json=as_json)
        else:
            _list_files(client, job_id, patterns or [], as_json=as_json)


def _check_options(
    patterns: list[str] | None,
    download: str | None,
    *,
    everything: bool,
    output: Path | None,
    remove: bool,
    checkpoints: bool,
) -> None:
    if (download is not None) + everything + remove > 1:
        raise typer.BadParameter("give one of --download PATH, --all and --rm")
    if checkpoints and remove:
        raise typer.BadParameter("--rm removes the files and the checkpoints together: give it without --checkpoints")
    if output is not None and download is None and not everything:
        raise typer.BadParameter("--output goes with --download PATH or --all")
    if patterns and (download is not None or checkpoints or remove):
        raise typer.BadParameter("a pattern goes with the list of files, and with --all")


def _tell_saved(paths: list[Path], *, as_json: bool) -> None:
    if as_json:
        print_json({"saved": [str(path) for path in paths]})
    else:
        for path in paths:
            tell(str(path))


def _list_files(client: "Service", job_id: str, patterns: list[str], *, as_json: bool) -> None:
    from hora.render.artifacts import artifacts_table
    from hora.service.artifacts import matches

    files = [file for file in client.artifacts(job_id) if matches(file["path"], patterns)]
    if as_json:
        print_json({"items": files})
    elif files:
        display(artifacts_table(files))
    else:
        say("The job has no file that matches." if patterns else "The job has no files.")


def _fetch_file(client: "Service", job_id: str, path: str, output: Path | None) -> list[Path]:
    from hora.cli.download_progress import progress
    from jobs.suggestions import meant

    into = _file(path, output)
    sizes = {file["path"]: int(file["bytes"]) for file in client.artifacts(job_id)}
    size = sizes.get(path, 0)
    if sizes and path not in sizes:
        raise NotFound(404, "Artifact not found", f"the job has no file {path!r}{meant(path, sizes)}")
    with progress() as show:
        return [client.download_artifact(job_id, path, into, on_bytes=lambda so_far: show(path, so_far, size))]


def _fetch_files(client: "Service", job_id: str, folder: Path | None, patterns: list[str]) -> list[Path]:
    from hora.cli.download_progress import progress

    with progress() as show:
        saved = client.download_artifacts(job_id, folder or Path(job_id), patterns=patterns, on_bytes=show)
    if patterns and not saved:
        raise NotFound(404, "Artifact not found", f"the job has no file that matches {' or '.join(patterns)}")
    return saved


def _file(path: str, output: Path | None) -> Path:
    name = path.rpartition("/")[2]
    if output is not None and output.is_dir():
        output = output / name
    if output is None and (not name or name.startswith(".")):
        raise HoraError(f"The job has no file {path!r}.")
    return output or Path(name)
