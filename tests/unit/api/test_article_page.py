"""One file of an article: what people wrote cannot become HTML, and nothing is loaded from elsewhere."""

import re

import pytest

from api.processes.article_page import html_of
from jobs.insight.articles.document import Document, Grid, Picture, Prose
from jobs.insight.studies.plots import Line, Panel

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
NOTHING = [None, None]
LINE = Line(label=f"$x$ {HOSTILE}", x=[1, 2], y=[0.5, None], low=NOTHING, high=NOTHING)
PICTURE = Picture(
    title=HOSTILE,
    panels=[Panel(title=HOSTILE, x_label="epoch", y_label=HOSTILE, lines=[LINE], are_curves=True)],
    caption=HOSTILE,
)


def page_of(*texts: str) -> str:
    return html_of(Document(title="t", byline="b", parts=[Prose(text=text) for text in texts]))


def body_of(page: str) -> str:
    return page.partition('<p class="byline">')[2]


def test_markdown_is_formatted() -> None:
    body = body_of(page_of("# Head\n\nA *b* `c` [d](https://example.org/?a=1&b=2)\n\n| e |\n|---|\n| f |\n\n~~g~~"))
    for expected in (
        "<h1>Head</h1>", "<em>b</em>", "<code>c</code>", '<a href="https://example.org/?a=1&amp;b=2">d</a>',
        "<td>f</td>", "<s>g</s>",
    ):  # fmt: skip
        assert expected in body


@pytest.mark.parametrize(
    "text",
    [
        HOSTILE,
        "[x](javascript:alert(1))",
        "[x](JaVaScRiPt:alert(1))",
        "[x](&#106;avascript:alert(1))",
        "[x](data:text/html;base64,PHNjcmlwdD4=)",
        "[x](vbscript:x)",
        "[x](file:///etc/passwd)",
        "<javascript:alert(1)>",
        "![x](https://example.org/tracker.png)",
        "![x](javascript:alert(1))",
        "[x]: javascript:alert(1)\n\n[x]",
        "```\n</code></pre><script>alert(1)</script>\n```",
        '[x](https://example.org "\\"onclick=alert(1)")',
    ],
)
def test_no_text_becomes_a_script_or_loads_a_file(text: str) -> None:
    body = body_of(page_of(text))
    tags = {tag.lower() for tag in re.findall(r"<\s*/?\s*([A-Za-z]+)", body)}
    assert tags <= {"p", "a", "pre", "code", "body", "html"}
    for address in re.findall(r'<a href="([^"]*)"', body):
        assert address.startswith("https://example.org")
    assert not re.search(r"<[^>]*\s(on\w+|src|style)=", body)


def test_names_and_values_are_escaped() -> None:
    grid = Grid(title=HOSTILE, columns=[HOSTILE], rows=[[HOSTILE]], caption=HOSTILE)
    page = html_of(Document(title=HOSTILE, byline=HOSTILE, parts=[grid, PICTURE]))
    assert "<script" not in page
    assert re.findall(r'<img alt="[^"]*" src="data:image/svg\+xml;base64,[A-Za-z0-9+/=]+">', page)
    assert page.count("<img") == 1


def test_a_picture_without_curves_says_why() -> None:
    empty = PICTURE.model_copy(update={"panels": [], "caption": "None of them has loss."})
    page = html_of(Document(title="t", byline="b", parts=[empty]))
    assert "None of them has loss." in page
    assert "<img" not in page
