"""Signing in, with an api alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from hora.service import Service
from hora.stack import Stack
from tests.browser.conftest import Troubles

API_ALONE = ("database", "broker", "migrations", "api")


@pytest.fixture(scope="module")
def site(session_folder: Path) -> Iterator[Stack]:
    with Stack(session_folder / "page", port=0, parts=API_ALONE) as stack:
        yield stack


@pytest.fixture
def stranger(browser: Browser, site: Stack, troubles: Troubles) -> Iterator[Page]:
    """A page of somebody who has no session."""
    context = browser.new_context(base_url=site.url)
    page = context.new_page()
    troubles.watch(page)
    troubles.allowed.append("401")
    yield page
    context.close()
    assert troubles.unexpected() == []


def test_a_token_lets_one_in_and_a_wrong_one_does_not(stranger: Page, site: Stack) -> None:
    stranger.goto("/hosts")
    token = stranger.get_by_label("Token")
    token.fill("not the token")
    token.press("Enter")
    expect(stranger.get_by_role("alert")).to_contain_text("unknown, has expired or was revoked")
    token.fill(site.token)
    stranger.get_by_role("button", name="Sign in").click()
    expect(stranger.get_by_title("Signed in with the scope")).to_be_visible()
    expect(stranger).to_have_url(f"{site.url}/hosts")


def test_a_link_lets_nobody_in_twice(stranger: Page, service: Service, troubles: Troubles) -> None:
    link = service.login_link()["url"]
    stranger.goto(link)
    expect(stranger.get_by_title("Signed in with the scope")).to_be_visible()
    stranger.context.clear_cookies()
    stranger.goto(link)
    expect(stranger.get_by_role("status")).to_contain_text("This link lets nobody in")
    expect(stranger.get_by_label("Token")).to_be_visible()
