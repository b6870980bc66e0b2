"""Descriptions of fields as others than the pages in docs/ show them. Pure; used by the api and the command line."""

import re

_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def without_links(description: str) -> str:
    """The description with the text of each Markdown link alone: its target is a page in docs/."""
    return _LINK.sub(r"\1", description)
