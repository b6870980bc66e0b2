"""The page of the API at /docs in a real Chromium: it loads nothing from elsewhere, and tries out operations."""

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Site


def try_out(page: Page) -> Locator:
    """Execute the operation `get_me`, which needs no input. Returns the place of its answer."""
    block = page.locator("#operations-people-get_me")
    block.locator(".opblock-summary-control").click()
    block.get_by_role("button", name="Try it out").click()
    block.get_by_role("button", name="Execute", exact=True).click()
    return block.locator(".live-responses-table")


def test_the_page_of_the_api_loads_nothing_from_elsewhere_and_uses_the_session(page: Page, site: Site) -> None:
    addresses: list[str] = []  # also of requests that the policy refuses
    page.on("request", lambda request: addresses.append(request.url))
    page.goto("/docs")
    expect(page.get_by_role("heading", name="Hora")).to_be_visible()
    expect(try_out(page)).to_contain_text('"scope": "admin"')
    assert f"{site.url}/docs/swagger-ui-bundle.js" in addresses
    # Swagger UI contains its pictures as data: addresses.
    assert [address for address in addresses if not address.startswith((f"{site.url}/", "data:"))] == []


def test_an_operation_is_tried_out_with_a_token(page: Page, site: Site) -> None:
    page.context.clear_cookies()
    page.goto("/docs")
    page.get_by_role("button", name="Authorize").first.click()
    page.get_by_label("auth-bearer-value").fill(str(site.token))
    page.get_by_role("button", name="Apply credentials").click()
    page.get_by_role("button", name="Close").click()

    expect(try_out(page)).to_contain_text('"scope": "admin"')
