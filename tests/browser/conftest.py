"""Pages of the dashboard in a real Chromium; skipped where there is none.

    browser     module    the Chromium
    site        module    the stack that a module uses; each module has its own
    page        test      a signed-in page at 1440x900; an unexpected error of the page fails the test
    troubles    test      errors of that page; a test adds the texts that it expects to `troubles.allowed`, and what it
                          deletes to `troubles.deleted_ids`

Playwright keeps an event loop running in the main thread. So it is stopped after each module: other tests start loops
of their own.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, StorageState, expect

from bench import chromium
from hora.service import Service
from hora.stack.control import Stack

WIDE = {"width": 1440, "height": 900}
PATIENCE_MS = 50_000  # for a busy machine; less than the minute after which a page without news polls
STARTED_MS = 240_000  # the start of a job: TensorFlow needs 5 s on a free core
_GIVEN_UP = "net::ERR_ABORTED"  # the page was left before the answer came


@dataclass
class Troubles:
    """Errors in the console (also refusals by the Content-Security-Policy), exceptions, and requests without answer."""

    messages: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)
    deleted_ids: list[str] = field(default_factory=list)  # a page may ask for them before it hears that they are gone

    def watch(self, page: Page) -> None:
        """Collect the errors of a page from now on."""
        page.on("console", self._console_message)
        page.on("pageerror", lambda error: self.messages.append(f"exception: {error}"))
        page.on("requestfailed", self._failed)

    def unexpected(self) -> list[str]:
        """The messages that the test did not allow."""
        return [message for message in self.messages if not self._is_expected(message)]

    def _is_expected(self, message: str) -> bool:
        if "404 (Not Found)" in message and any(each in message for each in self.deleted_ids):
            return True
        return any(text in message for text in self.allowed)

    def _console_message(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.messages.append(f"console: {message.text} ({message.location.get('url')})")

    def _failed(self, request: Request) -> None:
        if request.failure != _GIVEN_UP:
            self.messages.append(f"no answer: {request.method} {request.url}: {request.failure}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if chromium.PATH is None:
        pytest.skip("there is no Chromium here (Debian: apt-get install chromium-headless-shell)")
    expect.set_options(timeout=PATIENCE_MS)
    with chromium.chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def service(site: Stack) -> Iterator[Service]:
    with Service(site.url, site.token) as service:
        yield service


@pytest.fixture(scope="module")
def session(browser: Browser, service: Service) -> StorageState:
    return chromium.signed_in(browser, service)


@pytest.fixture
def troubles() -> Troubles:
    return Troubles()


@pytest.fixture
def page(browser: Browser, site: Stack, session: StorageState, troubles: Troubles) -> Iterator[Page]:
    context = browser.new_context(base_url=site.url, storage_state=session, viewport=WIDE)
    page = context.new_page()
    troubles.watch(page)
    yield page
    page.evaluate("0")  # wait for messages that are still on their way
    context.close()
    assert troubles.unexpected() == []
