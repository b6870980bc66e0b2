"""`hora note`, `star` and `archive`: what people keep about a job. Part of the command line of `hora.cli.app`."""

from pathlib import Path
from typing import Annotated

import typer

from hora.cli.exit_codes import USAGE
from hora.cli.options import AsJson, JobId, JobIds
from hora.cli.output import print_json, say, tell

app = typer.Typer()


@app.command()
def note(
    job_id: JobId,
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help='The notes, in Markdown. "" removes them.')
    ] = None,
    file: Annotated[
        str | None, typer.Option("-F", "--file", metavar="FILE", help="Take them from a file. - reads standard input.")
    ] = None,
    edit: Annotated[bool, typer.Option("--edit", help="Write them in $EDITOR.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the notes of a job, or replace them with a text, a file or what you write in an editor."""
    from hora.cli.job_changes import notes_size, read_notes
    from hora.connection import connect
    from hora.render.text import plain

    if (text is not None) + (file is not None) + edit > 1:
        raise typer.BadParameter("give one of TEXT, --file and --edit")
    if file is not None:
        text = read_notes(file)
    with connect() as client:
        job = client.job(job_id)
        if edit:
            text = _edited(job.get("notes") or "")
        if text is None:
            print_json(job) if as_json else _print_notes(job.get("notes"), job_id)
            return
        job = client.update(job["id"], {"notes": text})
    print_json(job) if as_json else tell(f"{plain(job['id'])} has notes {notes_size(job)}")


@app.command()
def star(
    job_ids: JobIds,
    off: Annotated[bool, typer.Option("--off", help="Remove the star.")] = False,
    as_json: AsJson = False,
) -> None:
    """Give jobs a star, which everybody sees. `hora ls --starred` lists them."""
    from hora.connection import connect
    from hora.render.text import plain

    with connect() as client:
        for job_id in job_ids:
            job = client.update(job_id, {"starred": not off})
            print_json(job) if as_json else tell(f"{plain(job['id'])} has {'no' if off else 'a'} star")


@app.command()
def archive(
    job_ids: JobIds,
    off: Annotated[bool, typer.Option("--off", help="Bring them back.")] = False,
    as_json: AsJson = False,
) -> None:
    """Archive jobs that have ended: `hora ls` leaves them out. Nothing of them is removed."""
    from hora.connection import connect
    from hora.render.text import plain

    with connect() as client:
        for job_id in job_ids:
            job = client.update(job_id, {"archived": not off})
            print_json(job) if as_json else tell(f"{plain(job['id'])} is {'not ' if off else ''}archived")


def _print_notes(notes: str | None, job_id: str) -> None:
    """Print notes as a quotation. No line of them looks like one of ours."""
    if notes is None:
        say(f"Job {job_id} has no notes. `hora note {job_id} TEXT` writes some.")
        return
    for line in notes.split("\n"):
        tell(f"  {line}".rstrip())


def _edited(text: str) -> str:
    """The text as the person leaves it in their editor. Exits if there is no terminal, or if the editor fails."""
    import os
    import shlex
    import subprocess
    import sys
    from tempfile import TemporaryDirectory

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        say("--edit needs a terminal: give the notes as TEXT or with --file")
        raise typer.Exit(USAGE)
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with TemporaryDirectory(prefix="hora-note-") as folder:
        path = Path(folder, "notes.md")
        path.write_text(text, encoding="utf-8")
        try:
            subprocess.run([*editor, str(path)], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            say(f"the editor failed, so nothing was changed: {error}")
            raise typer.Exit(USAGE) from None
        return path.read_text(encoding="utf-8").rstrip("\n")
