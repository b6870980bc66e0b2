"""The built documentation: it is small, and it needs nothing that its Content-Security-Policy refuses."""

import gzip
from html.parser import HTMLParser
from pathlib import Path

HELP = Path(__file__).parents[2] / "api" / "help"
MOST_BYTES = 1_500_000  # of all files, compressed: every wheel and image has them
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "use": "href"}


class Refused(HTMLParser):
    """Collects what the policy of the pages refuses: scripts and styles inside a document, files of other hosts."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        address = given.get(LOADED.get(tag, ""), "") or ""
        is_inline = tag == "style" or (tag == "script" and "src" not in given)
        has_inline = any(name == "style" or name.startswith("on") for name in given)
        if is_inline or has_inline or address.startswith(("http:", "https:", "//", "data:")):
            self.found.append(self.get_starttag_text() or tag)


def test_pages_have_nothing_that_their_content_security_policy_refuses() -> None:
    pages = sorted(HELP.rglob("*.html"))
    assert HELP / "docs" / "index.html" in pages, "not built: make setup"
    refused = {}
    for page in pages:
        parser = Refused()
        parser.feed(page.read_text())
        refused |= {str(page.relative_to(HELP)): parser.found} if parser.found else {}
    assert refused == {}


def test_parser_finds_what_the_policy_refuses() -> None:
    parser = Refused()
    parser.feed(
        '<p style="a"><style></style><script>1</script><b onclick="x"><script src="//a/b.js"></script><a href="http://a">'
    )
    assert len(parser.found) == 5


def test_built_documentation_stays_below_its_size_limit() -> None:
    packed = sum(len(gzip.compress(path.read_bytes(), 5)) for path in HELP.rglob("*") if path.is_file())
    assert packed < MOST_BYTES
