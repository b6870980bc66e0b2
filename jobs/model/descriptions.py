"""Descriptions of fields, for places other than the pages in docs/. Pure; used by the api and the command line."""

import re

_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def without_links(description: str) -> str:
    """The description with each Markdown link replaced by its text, because the links lead to pages in docs/."""
    return _LINK.sub(r"\1", description)
