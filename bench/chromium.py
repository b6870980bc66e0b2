"""Debian's Chromium, driven by Playwright, for pages of the dashboard. Used by measurements and by browser tests."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, StorageState, sync_playwright

from hora.service import Service

# The program that can show no window needs a quarter of the time to open a page.
PATH = shutil.which("chromium-headless-shell") or shutil.which("chromium")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A Chromium without windows. Only one at a time in a process."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PATH)
        yield browser
        browser.close()


def signed_in(browser: Browser, service: Service) -> StorageState:
    """The state of a browser after a login by a link, for `new_context(storage_state=...)`."""
    context = browser.new_context()
    context.new_page().goto(service.login_link()["url"])
    state = context.storage_state()
    context.close()
    return state
