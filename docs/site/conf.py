"""How Sphinx makes the documentation site from the Markdown of this repository. `hatch_build.py` runs it.

The sources are `docs/` and the pages at the top of the repository, as they lie: so a link leads to the same page here
as on a code host. Whatever Sphinx warns about ends the build: a link or an anchor that leads nowhere, a page that is in
no list of `docs/index.md`. Decisions are in the list of their own page, which a test checks.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx

_ROOT = Path(__file__).parents[2]
_LIST = "docs/index"  # the page whose lists of links are the contents of the site
_DECISION = re.compile(r"docs/decisions/\d")  # the list of all of them beside every page would be a third of the site
_SECTION = re.compile(r"^#+ (.+)\n((?:(?!#+ ).*\n?)*)", re.MULTILINE)
_ENTRY = re.compile(r"^- \[(.*?)\]\((.*?\.md)\)", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[([^]]+)\]\(([^):#]+)\)")

project = "Hora"
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md"]
exclude_patterns = [path.name for path in _ROOT.iterdir() if path.is_dir() and path.name != "docs"]
templates_path = ["templates"]
myst_heading_anchors = 6

html_theme = "furo"
html_title = "Hora"
html_static_path = ["static"]
html_favicon = "../../dashboard/public/icon.svg"
html_css_files = ["site.css"]
html_theme_options = {"top_of_page_buttons": []}
html_show_sourcelink = False
html_copy_source = False
html_show_copyright = False
html_use_index = False
pygments_style, pygments_dark_style = "a11y-high-contrast-light", "github-dark"
highlight_language = "text"


def setup(app: Sphinx) -> None:
    """Sphinx calls this before it reads the pages."""
    app.connect("source-read", _prepare)


def _prepare(app: Sphinx, docname: str, content: list[str]) -> None:
    """Change a page's text where Sphinx needs more, or other, than Markdown says."""
    folder = (_ROOT / docname).parent
    content[0] = _LINK.sub(lambda link: link[1] if (folder / link[2]).is_dir() else link[0], content[0])
    if _DECISION.match(docname):
        content[0] = f"---\norphan: true\n---\n{content[0]}"
    if docname == _LIST:
        content[0] += "".join(_contents(*section.groups()) for section in _SECTION.finditer(content[0]))


def _contents(heading: str, text: str) -> str:
    """The pages that a section lists, as part of the table of contents."""
    pages = [f"{title} <{page}>" for title, page in _ENTRY.findall(text)]
    return "\n".join(["\n```{toctree}", ":hidden:", f":caption: {heading}", "", *pages, "```\n"]) if pages else ""
