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
    as_json: AsJson = False,
) -> None:
    """List the files of a job, or download them. An interrupted download continues where it stopped."""
    from hora.cli.download_progress import progress
    from hora.connection import connect
    from hora.render.artifacts import artifacts_table

    if download is not None and everything:
        raise typer.BadParameter("give --download PATH or --all, not both")
    if output is not None and download is None and not everything:
        raise typer.BadParameter("--output goes with --download PATH or --all")
    with connect() as client:
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


def _file(path: str, output: Path | None) -> Path:
    name = path.rpartition("/")[2]
    if output is not None and output.is_dir():
        output = output / name
    if output is None and (not name or name.startswith(".")):
        raise HoraError(f"The job has no file {path!r}.")
    return output or Path(name)
