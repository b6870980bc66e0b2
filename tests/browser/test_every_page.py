"""Every page of the dashboard, wide and light, narrow and dark: all can use it, it stands still, and it fits."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Browser, StorageState, expect

from hora.service import Service
from hora.stack.control import Stack
from tests.browser.axe import issues
from tests.browser.conftest import Troubles, opened
from tests.browser.layout import assert_still, watch_shifts
from tests.browser.scene import fill, team_at
from tests.browser.views import SIZES, VIEWS, View, ids_by_name, path_of
from tests.unhurried import unhurried

pytestmark = pytest.mark.long("releases")


@pytest.fixture(scope="module")
def site(session_folder: Path) -> Iterator[Stack]:
    with pytest.MonkeyPatch.context() as patch, unhurried():
        patch.setenv("HORA_CODE", "on")
        with Stack(session_folder / "every-page", port=0, slots=2) as stack:
            with team_at(stack.url, stack.token) as team:
                fill(team, briefly=True)
            yield stack


@pytest.fixture(scope="module")
def ids(service: Service) -> Mapping[str, str]:
    return ids_by_name(service)


@pytest.mark.parametrize(("size", "scheme"), [("wide", "light"), ("narrow", "dark")])
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_all_can_use_a_page_that_fits_and_stands_still(
    browser: Browser, site: Stack, session: StorageState, ids: Mapping[str, str], troubles: Troubles, view: View,
    size: str, scheme: str,
) -> None:  # fmt: skip
    width, height = SIZES[size]
    troubles.allowed += [view.refusal] if view.refusal else []
    of_person = {"storage_state": session if view.is_signed_in else None, "color_scheme": scheme, "bypass_csp": True}
    with opened(browser, site, troubles, viewport={"width": width, "height": height}, **of_person) as page:
        watch_shifts(page)
        page.goto(path_of(view, ids))
        expect(page.get_by_text(view.ready).filter(visible=True).first).to_be_visible()
        expect(page.get_by_text("Loading").filter(visible=True)).to_have_count(0)
        assert issues(page) == []
        assert_still(page, view.path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
