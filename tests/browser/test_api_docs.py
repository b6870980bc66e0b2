"""The documentation and the page of the API in a real Chromium, under their own policies, also for a stranger."""

import re

from playwright.sync_api import Locator, Page, expect


def test_a_reader_searches_and_follows_a_result(stranger: Page) -> None:
    stranger.goto("/help")
    expect(stranger.get_by_role("heading", name="Documentation", level=1)).to_be_visible()
    search = stranger.get_by_role("search").get_by_role("textbox")
    search.fill("learning rate")
    search.press("Enter")
    results = stranger.locator("#search-results")
    expect(results).to_contain_text(re.compile(r"Search finished, found \d+ pages"))
    summary = results.locator("p.context").first
    expect(summary).to_contain_text(re.compile("rate", re.IGNORECASE))
    result = results.get_by_role("link", name="Batch probe", exact=True).first
    result.click()
    expect(stranger).to_have_url(re.compile("/help/docs/probe.html"))
    expect(stranger.get_by_role("heading", name="Batch probe", level=1)).to_be_visible()


def try_out(page: Page) -> Locator:
    """Execute the operation `get_me`, which needs no input. Returns the place of its answer."""
    block = page.locator("#operations-people-get_me")
    block.locator(".opblock-summary-control").click()
    block.get_by_role("button", name="Try it out").click()
    block.get_by_role("button", name="Execute", exact=True).click()
    return block.locator(".live-responses-table")


def test_the_page_of_the_api_uses_the_session(page: Page) -> None:
    """What its policy refuses would fail this. What it loads: `tests/integration/api/test_content_policy.py`."""
    page.goto("/docs")
    expect(page.get_by_role("heading", name="Hora")).to_be_visible()
    expect(try_out(page)).to_contain_text('"scope": "admin"')
