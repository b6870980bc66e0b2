"""What an HTML document loads, and what the Content-Security-Policy of all pages refuses in it."""

from html.parser import HTMLParser

_LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "use": "href"}
_ELSEWHERE = ("http:", "https:", "//", "data:")


class Markup(HTMLParser):
    """A document: the addresses that it loads, and the tags that the policy refuses.

    Refused are scripts and styles inside the document, and files of other hosts.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.refused: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        address = attributes.get(_LOADED.get(tag, "")) or ""
        if address:
            self.addresses.append(address)
        is_inline = tag == "style" or (tag == "script" and not address)
        has_inline = any(name == "style" or name.startswith("on") for name in attributes)
        if is_inline or has_inline or address.startswith(_ELSEWHERE):
            self.refused.append(self.get_starttag_text() or tag)
