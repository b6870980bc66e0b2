"""Makes one file of an article: `python -m api.processes.article_page` writes HTML or PDF.

It takes a `jobs.insight.articles.document.Document` on standard input.

A process of its own, started by `drawing`: it reads what people wrote, draws with matplotlib, and lays out pages with
WeasyPrint. The file contains its pictures, and names no other file. Nothing is fetched for it.
"""

import base64
import io
import sys
import warnings
from html import escape
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

from jobs.insight.articles.document import Document, Grid, Picture, Prose
from jobs.insight.studies.plots import Plot

_NO_PDF = 3  # the exit status without the libraries that PDF needs, as `drawing` knows it
_SCHEMES = ("http", "https", "mailto")
_STYLE = """
body { font: 16px/1.55 system-ui, "DejaVu Sans", sans-serif; color: #1b1f24; margin: 2rem auto; max-width: 52rem;
  padding: 0 1rem; }
h1, h2, h3, h4 { line-height: 1.25; } h1 { margin-bottom: .2rem; }
.byline, figcaption { color: #57606a; font-size: .875rem; }
figure { margin: 1.5rem 0; break-inside: avoid; } figure img { max-width: 100%; }
figure > strong { display: block; margin-bottom: .4rem; }
table { border-collapse: collapse; font-size: .875rem; } .wide { overflow-x: auto; }
th, td { border: 1px solid #d0d7de; padding: .25rem .6rem; text-align: left; overflow-wrap: anywhere; }
th { background: #f6f8fa; } pre { background: #f6f8fa; padding: .8rem; overflow-x: auto; white-space: pre-wrap; }
code { font-family: "DejaVu Sans Mono", monospace; font-size: .875em; }
blockquote { border-left: 3px solid #d0d7de; margin-left: 0; padding-left: 1rem; color: #57606a; }
@page { size: A4; margin: 18mm 16mm; @bottom-right { content: counter(page) " / " counter(pages); font-size: 9pt; } }
"""


def main() -> None:
    """Read the document, write the file."""
    document = Document.model_validate_json(sys.stdin.buffer.read())
    # Characters that no font has are drawn as boxes.
    warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
    page = html_of(document)
    sys.stdout.buffer.write(_pdf_of(page) if document.as_pdf else page.encode())


def html_of(document: Document) -> str:
    """The article as one file of HTML. What people wrote is escaped, or is Markdown without HTML and images."""
    parts = "\n".join(_part(part) for part in document.parts)
    title = escape(document.title)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{title}</h1>
<p class="byline">{escape(document.byline)}</p>
{parts}
</body>
</html>
"""


def _part(part: Prose | Picture | Grid) -> str:
    match part:
        case Prose():
            return str(markdown().render(part.text))
        case Picture():
            pictures = _image(part) if part.panels else ""
            return f"<figure>{_heading(part.title)}{pictures}<figcaption>{escape(part.caption)}</figcaption></figure>"
        case Grid():
            head = "".join(f"<th>{escape(column)}</th>" for column in part.columns)
            rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>\n" for row in part.rows)
            table = f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
            return f"<figure>{_heading(part.title)}{table}<figcaption>{escape(part.caption)}</figcaption></figure>"


def _heading(title: str) -> str:
    return f"<strong>{escape(title)}</strong>" if title else ""


def _image(picture: Picture) -> str:
    """The charts as an SVG in an address, so that nothing in it can reach the page around it."""
    from api.processes.plot import figure_of  # it takes a second or more, which articles without charts do not need

    svg = io.BytesIO()
    figure_of(Plot(title="", panels=picture.panels)).savefig(svg, format="svg", metadata={"Date": None})
    named = escape(f"Charts of {', '.join(panel.title for panel in picture.panels)}", quote=True)
    return f'<img alt="{named}" src="data:image/svg+xml;base64,{base64.b64encode(svg.getvalue()).decode()}">'


def markdown() -> MarkdownIt:
    """Markdown with tables, without HTML. An image becomes a link: no file of another place is loaded."""
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.validateLink = _is_harmless  # type: ignore[method-assign, assignment]
    parser.add_render_rule("image", _image_link)
    return parser


def _image_link(renderer: object, tokens: list[Token], number: int, *_: object) -> str:
    token = tokens[number]
    address = escape(str(token.attrs.get("src", "")), quote=True)
    return f'<a href="{address}">{escape(token.content) or address}</a>'


def _is_harmless(address: str) -> bool:
    """Whether a link leads to the web, to an address of mail, or to a place below this one."""
    try:
        parts = urlsplit(address.strip())
    except ValueError:
        return False
    return parts.scheme.lower() in _SCHEMES or (not parts.scheme and ":" not in address.partition("/")[0])


def _pdf_of(page: str) -> bytes:
    try:
        import weasyprint
    except OSError as error:  # Pango is not installed
        sys.stderr.write(str(error))
        sys.exit(_NO_PDF)
    fetcher = weasyprint.urls.URLFetcher(allowed_protocols=("data",))
    content: bytes = weasyprint.HTML(string=page, url_fetcher=fetcher, media_type="print").write_pdf()
    return content


if __name__ == "__main__":
    main()
