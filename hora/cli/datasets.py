"""`hora dataset`: register data by its path, or upload it; list and show it.

Part of the command line of `hora.cli.app`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hora.cli.completion import from_service
from hora.cli.exit_codes import FAILED
from hora.cli.options import AsJson, Timeout
from hora.cli.output import display, print_json, say, tell
from hora.errors import HoraError, ProblemError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hora.cli.completion import Proposal
    from hora.errors import Json
    from hora.service import Service

app = typer.Typer()
group = typer.Typer(help="Register, list, show and remove datasets.", no_args_is_help=True)
app.add_typer(group, name="dataset")


def _datasets(service: "Service") -> "Iterable[Proposal]":
    return ((dataset["name"], dataset["description"]) for dataset in service.datasets())


_dataset_names = from_service(_datasets)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The name: small letters, digits, dots, hyphens.")]
VersionName = Annotated[
    str, typer.Argument(metavar="NAME", help="The dataset, or one version: NAME@N.", autocompletion=_dataset_names)
]
Source = Annotated[
    str, typer.Argument(metavar="PATH", help="A path or URL below the data roots, or a path on this machine.")
]


@group.command()
def add(
    name: Name,
    source: Source,
    data_format: Annotated[
        str | None, typer.Option("--format", help="images, parquet or arrays. Without it the format is detected.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Parquet: the column of the label.")] = None,
    text: Annotated[str | None, typer.Option(help="Parquet: the column of the texts.")] = None,
    image_size: Annotated[
        str | None, typer.Option(metavar="HxW", help="The size that images are scaled to, such as 96x96.")
    ] = None,
    validation: Annotated[
        str | None, typer.Option(metavar="SHARE|PATH", help="The share or the path of the validation data.")
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="classification, regression or multilabel. Without it the labels decide.")
    ] = None,
    description: Annotated[str | None, typer.Option(help="A description in one line.")] = None,
    upload: Annotated[bool, typer.Option("--upload", help="Upload the data, even if the service can read it.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask about a folder of the system or a large one.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it has been validated.")] = False,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Register data as the next version of a dataset. Data that is only on this machine is uploaded."""
    from hora.cli.broad_folders import confirm_breadth
    from hora.connection import connect

    if not yes and "://" not in source:
        confirm_breadth(Path(source).expanduser(), may_ask=not as_json)
    options = {
        "format": data_format, "label": label, "text": text, "image_size": _size(image_size),
        "validation": _share(validation), "task": task, "description": description,
    }  # fmt: skip
    document = {"name": name} | {field: value for field, value in options.items() if value is not None}
    with connect() as client:
        version = _register(client, document, source, upload=upload)
        if wait:
            version = client.wait_dataset(name, version["version"], timeout_s=timeout)
    if as_json:
        print_json(version)
    else:
        tell(_summary(version))
    if version["status"] == "invalid":
        raise typer.Exit(FAILED)


def _register(client: "Service", document: "dict[str, Any]", source: str, *, upload: bool) -> "Json":
    """Register the path of the data. If the service cannot read that path, upload the data from here."""
    path = Path(source).expanduser()
    is_here = "://" not in source and path.exists()
    if not upload:
        try:
            return client.register_dataset(document | {"source": str(path.absolute()) if is_here else source})
        except ProblemError as problem:
            if not is_here or {error.get("field") for error in problem.errors} != {"source"}:
                raise
    elif not is_here:
        raise HoraError(f"{source} does not exist on this machine.")
    return client.register_dataset(document | {"upload": _upload(client, path)})


def _upload(client: "Service", path: Path) -> str:
    """Upload a file or a folder, with a progress bar on standard error. Returns the upload's id."""
    from hora.cli.upload_progress import sending
    from hora.render.text import plain
    from hora.service.upload_sources import upload_source
    from hora.service.uploads import send_source

    source = upload_source(path)
    say(f"Uploading {plain(path)}. If this is interrupted, the same command continues it.")
    with sending(source.size_bytes) as show:
        upload_id: str = send_source(client, source, show)["id"]
    return upload_id


@group.command("ls")
def list_datasets(as_json: AsJson = False) -> None:
    """List the datasets, each with its newest version."""
    from hora.connection import connect
    from hora.render.datasets import datasets_table

    with connect() as client:
        found = list(client.datasets())
    print_json({"items": found}) if as_json else display(datasets_table(found))


@group.command()
def show(dataset: VersionName, as_json: AsJson = False) -> None:
    """Show a dataset with its versions, or one version."""
    from hora.connection import connect
    from hora.render.datasets import version_facts, versions_table

    name, version = _name_and_version(dataset)
    with connect() as client:
        found = client.dataset(name) if version is None else client.dataset_version(name, version)
    if as_json:
        print_json(found)
    else:
        display(versions_table(found["items"]) if version is None else version_facts(found))


@group.command()
def rm(
    dataset: Annotated[str, typer.Argument(metavar="NAME@N", help="The version.", autocompletion=_dataset_names)],
    as_json: AsJson = False,
) -> None:
    """Remove a version of a dataset. No new job can use it. What Hora copied of it is deleted; your own files stay."""
    from hora.connection import connect

    name, version = _name_and_version(dataset)
    if version is None:
        raise typer.BadParameter("name a version, as NAME@N", param_hint="NAME@N")
    with connect() as client:
        removed = client.dataset_version(name, version)
        client.remove_dataset(name, version)
    if as_json:
        print_json({"removed": dataset})
        return
    tell(f"{dataset} is removed")
    say(_what_stays(removed))


def _what_stays(removed: "Json") -> str:
    """Which files of a removed version are deleted, and which are kept."""
    from hora.render.text import plain

    if removed.get("upload_id"):
        gone = "Its upload and what the hosts unpacked of it are deleted within minutes, when no job trains on it."
    else:
        gone = f"{plain(removed['source'])} is yours, and stays as it is."
    return f"{gone} Files that jobs read with cache: disk stay in the caches of hosts until their room is needed."


def _name_and_version(dataset: str) -> tuple[str, int | None]:
    name, at, number = dataset.partition("@")
    if at and not (number.isascii() and number.isdecimal()):
        raise typer.BadParameter("write it as NAME or NAME@N", param_hint="NAME")
    return name, int(number) if at else None


def _size(text: str | None) -> list[int] | None:
    if text is None:
        return None
    sides = text.split("x")
    if len(sides) != 2 or not all(side.isascii() and side.isdecimal() for side in sides):
        raise typer.BadParameter("write it as HEIGHTxWIDTH, such as 96x96", param_hint="--image-size")
    return [int(side) for side in sides]


def _share(text: str | None) -> float | str | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def _summary(version: "Json") -> str:
    from hora.render.jobs import learned
    from hora.render.text import count, plain

    name = f"{plain(version['name'])}@{version['version']}"
    if version["status"] == "invalid":
        return f"{name} is invalid: {plain(version['error'])}"
    if version["status"] == "ready":
        found = version["facts"]
        samples = count(found["samples"])
        return f"{name} is ready: {samples} samples, {learned(len(found['classes']), found.get('targets'))}"
    return f"{name} is being validated"
