"""`hora article`: pages of prose with charts and tables of jobs in them. Part of the command line of `hora.cli.app`."""

import sys
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from hora.cli.options import AsJson, Limit
from hora.cli.output import display, print_json, print_list, say, tell

app = typer.Typer()
group = typer.Typer(help="Articles: pages of prose with charts and tables of jobs in them.", no_args_is_help=True)
app.add_typer(group, name="article")

ArticleId = Annotated[str, typer.Argument(metavar="ID", help="The article.")]
File = Annotated[str, typer.Argument(metavar="FILE", help="Its text: Markdown with blocks. - is standard input.")]
Title = Annotated[
    str | None, typer.Option(help="The title. Without it: the heading `# ...` in the first line of the text.")
]
Version = Annotated[int | None, typer.Option(min=1, help="This version. Without it: the newest.")]


@group.command()
def add(
    file: File,
    title: Title = None,
    project: Annotated[str | None, typer.Option(help="The project whose members may change it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Add an article, and print its id."""
    from hora.connection import connect

    heading, text = _read(file)
    title = title or heading
    if title is None:
        raise typer.BadParameter("the text has no title: begin it with `# The title`, or use --title")
    with connect() as client:
        article = client.create_article(title, text, project=project)
    print_json(article) if as_json else tell(article["id"])


@group.command()
def change(article_id: ArticleId, file: File, title: Title = None, as_json: AsJson = False) -> None:
    """Write a new version of an article."""
    from hora.connection import connect

    heading, text = _read(file)
    with connect() as client:
        seen = client.article(article_id)
        article = client.change_article(article_id, version=seen["version"], title=title or heading, text=text)
    is_same = article["version"] == seen["version"]
    sentence = f"{article_id} is as it was" if is_same else f"{article_id} has version {article['version']}"
    print_json(article) if as_json else tell(sentence)


@group.command("ls")
def list_(
    owner: Annotated[str | None, typer.Option(help="Only articles of this user.")] = None,
    project: Annotated[str | None, typer.Option(help="Only articles of this project.")] = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List articles, those that were changed last first."""
    from hora.connection import connect
    from hora.render.articles import articles_table

    with connect() as client:
        found = list(islice(client.articles(owner=owner, project=project, page_size=min(limit, 100)), limit))
    nothing = "No article matches." if owner or project else "No articles. Write one: `hora article add FILE`."
    print_list(found, articles_table, nothing=nothing, as_json=as_json)


@group.command()
def show(article_id: ArticleId, version: Version = None, as_json: AsJson = False) -> None:
    """Print the text of an article. `hora article export ID -o FILE.md` writes it into a file."""
    from hora.connection import connect

    with connect() as client:
        article = client.article(article_id, version=version)
    if as_json:
        print_json(article)
        return
    for line in f"# {article['title']}\n\n{article['text']}".splitlines():
        tell(f"  {line}".rstrip())  # so that no line of it looks like one of ours


@group.command()
def versions(article_id: ArticleId, as_json: AsJson = False) -> None:
    """List the versions of an article, newest first."""
    from hora.connection import connect
    from hora.render.articles import versions_table

    with connect() as client:
        found = client.article_versions(article_id)
    print_json({"items": found}) if as_json else display(versions_table(found))


@group.command()
def export(
    article_id: ArticleId,
    output: Annotated[str, typer.Option("-o", "--output", metavar="FILE", help="A file: .html, .pdf or .md.")],
    version: Version = None,
) -> None:
    """Write an article into one file, with what its charts and tables show now."""
    from hora.cli.reports import write
    from hora.connection import connect
    from hora.service.articles import Form

    forms: dict[str, Form] = {".html": "html", ".pdf": "pdf", ".md": "markdown"}
    suffix = Path(output).suffix.lower()
    if suffix not in forms:
        raise typer.BadParameter(f"{output}: name a file that ends in {', '.join(forms)}", param_hint="--output")
    with connect() as client:
        content = client.export_article(article_id, format=forms[suffix], version=version)
    write(content, output)
    say(f"{article_id} is written to {output}, {len(content):,} bytes")


@group.command()
def rm(article_id: ArticleId, as_json: AsJson = False) -> None:
    """Delete an article with all its versions."""
    from hora.connection import connect

    with connect() as client:
        client.remove_article(article_id)
    print_json({"removed": article_id}) if as_json else tell(f"{article_id} is deleted")


def _read(file: str) -> tuple[str | None, str]:
    """The title, if the text begins with a heading, and the rest of the text."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}", param_hint="FILE") from error
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{file} is no text in UTF-8", param_hint="FILE") from error
    first, _, rest = text.lstrip().partition("\n")
    return (first[2:].strip(), rest.lstrip("\r\n")) if first.startswith("# ") else (None, text)
