"""The built documentation: it is small, and it needs nothing that its Content-Security-Policy refuses."""

import gzip
from pathlib import Path

from tests.markup import Markup

HELP = Path(__file__).parents[2] / "api" / "help"
MOST_BYTES = 1_500_000  # of all files, compressed: every wheel and image has them


def test_pages_have_nothing_that_their_content_security_policy_refuses() -> None:
    pages = sorted(HELP.rglob("*.html"))
    assert HELP / "docs" / "index.html" in pages, "not built: make setup"
    refused = {str(page.relative_to(HELP)): Markup(page.read_text()).refused for page in pages}
    assert {name: tags for name, tags in refused.items() if tags} == {}


def test_markup_finds_what_the_policy_refuses() -> None:
    markup = Markup(
        '<p style="a"><style></style><script>1</script><b onclick="x"><script src="//a/b.js"></script><a href="http://a">'
    )
    assert len(markup.refused) == 5


def test_built_documentation_stays_below_its_size_limit() -> None:
    packed = sum(len(gzip.compress(path.read_bytes(), 5)) for path in HELP.rglob("*") if path.is_file())
    assert packed < MOST_BYTES
