"""Pages of the dashboard in a real Chromium; skipped where there is none.

    browser     module    the Chromium
    api_alone   session   starts an api with a database of its own: `with api_alone() as site`
    site        module    what a module looks at: such an api, or a stack if jobs train. This one has no rows
    page        test      a signed-in page at 1440x900; an unexpected error of the page fails the test
    stranger    test      such a page of a person who is not signed in
    troubles    test      errors of that page; a test adds the texts that it expects to `troubles.allowed`, and what it
                          deletes to `troubles.deleted_ids`

Playwright keeps an event loop running in the main thread. So it is stopped after each module: other tests start loops
of their own.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, StorageState, expect

from api.main import app_for
from bench import chromium
from hora.service import Service
from hora.stack.control import Stack
from jobs.runtime.settings import Settings
from tests.conftest import a_clone
from tests.servers import serving
from tests.stack_settings import end_all_jobs

WIDE = {"width": 1440, "height": 900}
PATIENCE_MS = 50_000  # for a busy machine; less than the minute after which a page without news polls
STARTED_MS = 240_000  # the start of a job: TensorFlow needs 5 s on a free core
_TOKEN = "hora_test-token"
_GIVEN_UP = "net::ERR_ABORTED"  # the page was left before the answer came


@dataclass(frozen=True)
class ApiAlone:
    """An api in this process, whose rows are stored by tests and never by a worker."""

    url: str
    token: str
    database_url: str
    home: Path


Site = Stack | ApiAlone
StartApi = Callable[..., AbstractContextManager[ApiAlone]]


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


@pytest.fixture(scope="session")
def api_alone(postgres_url: str, _template: str, broker_url: str, session_folder: Path) -> StartApi:
    """Starts an api with these settings. Only the first one of a run costs what a process costs."""

    @contextmanager
    def start(**settings: object) -> Iterator[ApiAlone]:
        home = session_folder / "api"
        with a_clone(postgres_url, _template) as database:
            configuration = Settings(database_url=database, broker_url=broker_url, token=_TOKEN, home=home, **settings)  # type: ignore[arg-type]
            # What a page still asks for is answered first: a request that is cut off keeps its connection.
            with serving(app_for(configuration), configuration, timeout_graceful_shutdown=60) as port:
                yield ApiAlone(f"http://127.0.0.1:{port}", _TOKEN, database, home)

    return start


@pytest.fixture(scope="module")
def site(api_alone: StartApi) -> Iterator[Site]:
    with api_alone() as site:
        yield site


@pytest.fixture(scope="module")
def training_site(stack: Stack) -> Iterator[Stack]:
    """The stack that all tests of this process share. When the module is done with it, no job is left there."""
    yield stack
    with Service(stack.url, stack.token) as client:
        end_all_jobs(client)


@pytest.fixture(scope="module")
def service(site: Site) -> Iterator[Service]:
    with Service(site.url, site.token) as service:
        yield service


@pytest.fixture(scope="module")
def session(browser: Browser, service: Service) -> StorageState:
    return chromium.signed_in(browser, service)


@pytest.fixture
def troubles() -> Troubles:
    return Troubles()


@contextmanager
def opened(browser: Browser, site: Site, troubles: Troubles, **options: Any) -> Iterator[Page]:
    """A page in a context with these options. An unexpected error of the page fails the test."""
    context = browser.new_context(base_url=site.url, **{"viewport": WIDE} | options)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    troubles.watch(page)
    yield page
    page.evaluate("0")  # wait for messages that are still on their way
    context.close()
    assert troubles.unexpected() == []


@pytest.fixture
def page(browser: Browser, site: Site, session: StorageState, troubles: Troubles) -> Iterator[Page]:
    with opened(browser, site, troubles, storage_state=session) as page:
        yield page


@pytest.fixture
def stranger(browser: Browser, site: Site, troubles: Troubles) -> Iterator[Page]:
    with opened(browser, site, troubles, color_scheme="dark") as page:
        yield page
