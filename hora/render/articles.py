"""What the command line shows of articles: tables, from the API's JSON. Pure."""

from collections.abc import Iterable
from datetime import datetime

from rich.table import Table

from hora.errors import Json
from hora.render.tables import table_of
from hora.render.text import ago, plain


def articles_table(articles: Iterable[Json], now: datetime | None = None) -> Table:
    """One line an article."""
    table = table_of("ID", "TITLE…", "OWNER", "PROJECT?", "VERSION>", "CHANGED", "BY?")
    for article in articles:
        table.add_row(
            plain(article["id"]),
            plain(article["title"]),
            plain(article["owner"]),
            plain(article["project"]),
            str(article["version"]),
            ago(article["changed_at"], now),
            plain(article["author"]),
        )
    return table


def versions_table(versions: Iterable[Json], now: datetime | None = None) -> Table:
    """One line a version."""
    table = table_of("VERSION>", "TITLE…", "BY", "WRITTEN", "CHARACTERS>")
    for version in versions:
        table.add_row(
            str(version["version"]),
            plain(version["title"]),
            plain(version["author"]),
            ago(version["created_at"], now),
            f"{version['characters']:,}",
        )
    return table
