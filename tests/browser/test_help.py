"""The documentation in a real Chromium, under its own policy, for a reader who is not signed in."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.axe import issues
from tests.browser.conftest import WIDE, Site, Troubles

OF_THE_THEME = (".sidebar-drawer", "page-has-heading-one")  # its second sidebar, and the page of the search


@pytest.fixture
def reader(browser: Browser, site: Site, troubles: Troubles) -> Iterator[Page]:
    """A page of a reader who never signed in."""
    context = browser.new_context(base_url=site.url, viewport=WIDE, color_scheme="dark")
    page = context.new_page()
    troubles.watch(page)
    yield page
    page.evaluate("0")  # wait for messages that are still on their way
    context.close()
    assert troubles.unexpected() == []


def test_a_reader_searches_and_follows_a_result(reader: Page) -> None:
    reader.goto("/help")
    expect(reader.get_by_role("heading", name="Documentation", level=1)).to_be_visible()
    search = reader.get_by_role("search").get_by_role("textbox")
    search.fill("learning rate")
    search.press("Enter")
    results = reader.locator("#search-results")
    expect(results).to_contain_text(re.compile(r"Search finished, found \d+ pages"))
    summary = results.locator("p.context").first
    expect(summary).to_contain_text(re.compile("rate", re.IGNORECASE))
    result = results.get_by_role("link", name="Batch probe", exact=True).first
    result.click()
    expect(reader).to_have_url(re.compile("/help/docs/probe.html"))
    expect(reader.get_by_role("heading", name="Batch probe", level=1)).to_be_visible()


def test_the_chosen_theme_stays_on_the_next_page(reader: Page) -> None:
    reader.goto("/help/docs/spec.html")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = reader.evaluate(background)
    chosen = reader.locator("body").get_attribute("data-theme")
    assert chosen == "auto"
    reader.locator("button.theme-toggle:visible").click()
    expect(reader.locator("body")).to_have_attribute("data-theme", "light")
    assert reader.evaluate(background) != dark
    reader.get_by_role("link", name="Studies", exact=True).first.click()
    expect(reader.get_by_role("heading", name="Studies", level=1)).to_be_visible()
    expect(reader.locator("body")).to_have_attribute("data-theme", "light")


@pytest.mark.long("releases")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["docs/index.html", "docs/cli.html", "search.html?q=batch"])
def test_the_documentation_has_no_accessibility_issues(browser: Browser, site: Site, path: str, scheme: str) -> None:
    context = browser.new_context(base_url=site.url, viewport=WIDE, color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.goto(f"/help/{path}")
    expect(page.get_by_role("main")).to_be_visible()
    assert [issue for issue in issues(page) if not any(text in issue for text in OF_THE_THEME)] == []
    context.close()
