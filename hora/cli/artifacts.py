"""`hora artifacts`: the files of a job. Part of the command line of `hora.cli.app`."""

from pathlib import Path
from typing import Annotated

import typer

from hora.cli.options import AsJson, JobId
from hora.cli.output import display, print_json, say, tell
from hora.errors import HoraError

app = typer.Typer()


@app.command()
def artifacts(
    job_id: JobId,
    download: Annotated[
        str | None, typer.Option("--download", metavar="PATH", help="Download this file, by its path in the list.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Download all files.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="The file to write, or with --all the folder. Default: the file's name, or the job's id.",
        ),
    ] = None,
    remove: Annotated[
        bool, typer.Option("--rm", help="Remove all files and the checkpoints of a job that has ended.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the files of a job, download or remove them. An interrupted download continues where it stopped."""
    from hora.cli.download_progress import progress
    from hora.connection import connect
    from hora.render.artifacts import artifacts_table

    _check_options(download, everything=everything, output=output, remove=remove)
    with connect() as client:
        if remove:
            client.remove_artifacts(job_id)
            print_json({"removed": job_id}) if as_json else tell(f"The files of {job_id} are removed")
            return
        if everything:
            with progress() as show:
                saved = client.download_artifacts(job_id, output or Path(job_id), on_bytes=show)
        elif download is not None:
            into = _file(download, output)
            size = next((int(file["bytes"]) for file in client.artifacts(job_id) if file["path"] == download), 0)
            with progress() as show:
                saved = [
                    client.download_artifact(
                        job_id, download, into, on_bytes=lambda so_far: show(download, so_far, size)
                    )
                ]
        else:
            files = list(client.artifacts(job_id))
            if as_json:
                print_json({"items": files})
            elif files:
                display(artifacts_table(files))
            else:
                say("The job has no files.")
            return
    if as_json:
        print_json({"saved": [str(path) for path in saved]})
    else:
        for path in saved:
            tell(str(path))


def _check_options(download: str | None, *, everything: bool, output: Path | None, remove: bool) -> None:
    if (download is not None) + everything + remove > 1:
        raise typer.BadParameter("give one of --download PATH, --all and --rm")
    if output is not None and download is None and not everything:
        raise typer.BadParameter("--output goes with --download PATH or --all")


def _file(path: str, output: Path | None) -> Path:
    name = path.rpartition("/")[2]
    if output is not None and output.is_dir():
        output = output / name
    if output is None and (not name or name.startswith(".")):
        raise HoraError(f"The job has no file {path!r}.")
    return output or Path(name)
