"""The table of many jobs with its columns, CSV and saved views; the pages for tokens, projects, users and others."""

from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, StorageState, expect
from sqlalchemy import update

from bench import chromium
from bench.many_jobs import store_jobs
from bench.telemetry import a_job
from hora.service import Service
from jobs.data import samples
from jobs.db.tables import DatasetVersion, Job
from tests.browser.axe import issues
from tests.browser.conftest import WIDE, Site, StartApi, Troubles, opened
from tests.stored_runs import sessions_on
from tests.waiting import until

JOBS, LIVE = 1_200, "live00000000"
MARKUP = "<img src=x onerror=window.isTaken=1>"
NARROW = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def site(api_alone: StartApi) -> Iterator[Site]:
    with api_alone() as site:
        store_jobs(site.database_url, prefix="e", status="succeeded", count=JOBS)
        with sessions_on(site.database_url) as sessions, sessions.begin() as session:
            a_job(session, LIVE, gpus=1)
            hostile = {"name": MARKUP, "labels": {"team": MARKUP}}
            session.execute(update(Job).values(**hostile).where(Job.id == f"e{1:010}"))
            version = {"description": MARKUP, "status": "invalid", "error": MARKUP, "options": {"label": MARKUP}}
            session.add(DatasetVersion(name="chips", version=1, source=MARKUP, created_by="eve", **version))
            facts = {
                "format": "images", "shape": [8, 8, 1], "classes": [MARKUP], "class_counts": {MARKUP: 3}, "samples": 3,
                "train": 2, "validation": 1, "test": 0, "split": 0.1, "damaged": 0, "damaged_files": [], "files": 3,
                "bytes": 99,
            }  # fmt: skip
            ready = DatasetVersion(name="chips", version=2, source="chips", created_by="eve", options={}, facts=facts)
            ready.status = "ready"
            session.add(ready)
            session.flush()
            pixels = b64encode(bytes(range(64))).decode()
            sample = {"label": MARKUP, "height": 8, "width": 8, "channels": 1, "pixels": pixels}
            assert samples.store(session, ready.id, {"samples": [sample] * 3}) == 3
        with Service(site.url, site.token) as admin:
            admin.create_project({"name": "vision", "description": MARKUP, "max_slots": 8})
            admin.create_token(MARKUP, user="eve")
            admin.create_token(MARKUP)
            admin.add_member("vision", "eve")
            admin.create_webhook("https://ci.example.com/hooks/hora")
        yield site


@contextmanager
def page_of(browser: Browser, site: Site, user: str, scope: str, **options: object) -> Iterator[Page]:
    """A page of somebody else, who gets a token of this scope."""
    with Service(site.url, site.token) as admin:
        token = admin.create_token("page", user=user, scope=scope)["token"]
    with Service(site.url, token) as service:
        session = chromium.signed_in(browser, service)
    context = browser.new_context(base_url=site.url, storage_state=session, viewport=WIDE, **options)  # type: ignore[arg-type]
    yield context.new_page()
    context.close()


def heads(page: Page) -> list[str]:
    return [text.strip(" ↑↓") for text in page.get_by_role("columnheader").all_inner_texts()]


def test_columns_are_found_moved_pinned_and_kept(page: Page) -> None:
    page.goto("/")
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("searchbox", name="Find a column").fill("dataset.source")
    page.get_by_role("button", name="Show dataset.source", exact=True).click()
    page.get_by_role("button", name="Pin dataset.source").click()
    expect(page.get_by_role("columnheader").nth(1)).to_have_text("dataset.source")
    before = heads(page).index("Owner")
    page.get_by_role("button", name="Move Owner to the left").press("Alt+ArrowUp")
    until(lambda: heads(page).index("Owner") == before - 1, what="the column at another place")
    page.get_by_role("button", name="Hide GPUs").click()
    kept = heads(page)
    assert "GPUs" not in kept
    cell = page.get_by_role("row").nth(2).get_by_role("cell").nth(1)
    expect(cell).to_have_text("digits")
    place = cell.bounding_box()
    page.get_by_role("region", name="Jobs").locator("div").first.evaluate("list => (list.scrollLeft = 300)")
    assert cell.bounding_box() == place
    page.reload()
    expect(page.get_by_role("columnheader").nth(1)).to_have_text("dataset.source")
    assert heads(page) == kept


def test_all_jobs_that_match_are_selected_and_a_job_has_a_menu(page: Page) -> None:
    page.goto("/?status=succeeded")
    page.get_by_role("checkbox", name="Select all shown jobs").check()
    bar = page.get_by_role("group", name="Selected jobs")
    bar.get_by_role("button", name="Select all that match").click()
    expect(bar).to_contain_text("1000 selected")
    page.goto("/?status=running")
    row = page.locator(f"[data-job={LIVE}]")
    row.click(button="right")
    menu = page.get_by_role("group", name="Job ")
    expect(menu.get_by_role("link", name="Open in a new tab")).to_be_focused()
    page.mouse.click(5, 5)
    expect(menu).to_have_count(0)
    row.get_by_role("button", name="Menu of").click()
    menu.get_by_role("button", name="Star").click()
    expect(page.get_by_text("Starred: 1")).to_be_visible()
    expect(menu).to_have_count(0)


def test_a_view_is_saved_opened_by_a_link_changed_and_deleted(page: Page, browser: Browser, site: Site) -> None:
    page.goto("/?owner=user-7")
    page.get_by_role("button", name="Views").click()
    page.get_by_role("textbox", name="Name of the new view").fill(f"seven {MARKUP}")
    page.get_by_role("button", name="Save", exact=True).click()
    menu = page.get_by_role("button", name="View: seven")
    expect(menu).to_be_visible()
    assert "view=" in page.url
    assert "owner=user-7" in page.url
    link = "/?" + next(part for part in page.url.partition("?")[2].split("&") if part.startswith("view="))
    with page_of(browser, site, "dora", "submit") as other:
        other.goto(link)
        other.get_by_role("button", name="View: seven").click()
        expect(other.get_by_text("Saved by admin")).to_be_visible()
        expect(other.get_by_role("button", name="owner = user-7")).to_be_visible()
        expect(other.get_by_role("button", name="Delete…")).to_have_count(0)
        assert other.evaluate("window.isTaken") is None
    page.get_by_role("button", name="failed").click()
    expect(menu).to_contain_text("(changed)")
    menu.click()
    page.get_by_role("button", name="Save the changes").click()
    expect(menu).not_to_contain_text("(changed)")
    page.goto(link)
    expect(page.get_by_role("button", name="failed")).to_have_attribute("aria-pressed", "true")
    menu.click()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete the view").click()
    expect(page.get_by_role("button", name="Views")).to_be_visible()


def test_pages_of_settings_show_hostile_texts_as_texts_and_can_be_used_by_all(
    browser: Browser, site: Site, session: StorageState, troubles: Troubles
) -> None:
    with opened(browser, site, troubles, storage_state=session, viewport=NARROW, bypass_csp=True) as page:
        for path, text in (
            ("/datasets", "fashion-mnist"), ("/datasets/chips", "Version 1"), ("/projects", "vision"),
            ("/projects/vision", "0 of 8"), ("/tokens", "stack"), ("/users", "admin"), ("/webhooks", "ci.example.com"),
            ("/audit", "token.created"),
        ):  # fmt: skip
            page.goto(path)
            expect(page.get_by_role("main")).to_contain_text(text)
            for form in page.locator("main details").all():
                form.evaluate("form => (form.open = true)")
            assert issues(page) == [], path
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
            assert page.evaluate("window.isTaken") is None, path
        page.goto("/datasets/chips")
        images = page.get_by_role("list", name="Samples").get_by_role("img")
        expect(images).to_have_count(3)
        expect(images.first).to_have_attribute("alt", f"A sample of {MARKUP}")
        until(lambda: images.first.evaluate("image => image.naturalWidth") == 8, what="the image")


def test_a_token_is_shown_once_and_revoked(page: Page) -> None:
    page.goto("/tokens")
    page.get_by_text("New token").click()
    page.get_by_label("Name", exact=True).fill("nightly")
    page.get_by_label("Scope").select_option("read")
    page.get_by_role("button", name="Create the token").click()
    secret = page.locator("code", has_text="hora_")
    expect(secret).to_be_visible()
    row = page.get_by_role("row").filter(has_text="nightly")
    expect(row).to_contain_text("read")
    page.get_by_role("button", name="Done").click()
    expect(secret).to_have_count(0)
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(row).to_contain_text("revoked")
    expect(row.get_by_role("button")).to_have_count(0)


def test_an_admin_changes_a_project_and_its_members(page: Page, service: Service, troubles: Troubles) -> None:
    troubles.allowed.append("404")  # a user whom nobody knows
    page.goto("/projects/vision")
    page.get_by_text("Quotas and share").click()
    page.get_by_label("Slots at once").fill("")
    page.get_by_label("Share of the slots").fill("2.5")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("region", name="Use")).to_contain_text("2.5")
    project = service.project("vision")
    assert (project["max_slots"], project["share"], project["description"]) == (None, 2.5, MARKUP)
    page.get_by_text("Add a member").click()
    page.get_by_label("User").fill("nobody of this name")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("User not found")
    page.get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_text("Nobody is a member")).to_be_visible()


def test_a_reader_is_not_offered_what_a_reader_may_not_do(browser: Browser, site: Site) -> None:
    with page_of(browser, site, "gus", "read") as page:
        page.goto("/projects/vision")
        expect(page.get_by_role("main")).to_contain_text("Members")
        for text in ("Quotas and share", "Add a member"):
            expect(page.get_by_text(text)).to_have_count(0)
        page.get_by_role("button", name="More").click()
        menu = page.get_by_role("navigation", name="Pages")
        expect(menu.get_by_role("link", name="Webhooks")).to_be_visible()
        for name in ("Users", "Audit log"):
            expect(menu.get_by_role("link", name=name)).to_have_count(0)
        page.goto("/tokens")
        page.get_by_text("New token").click()
        expect(page.get_by_label("Scope").locator("option")).to_have_text(["read"])
        page.goto("/users")
        expect(page.get_by_role("alert")).to_contain_text("admin")


def test_signing_out_ends_the_session_at_the_service(browser: Browser, site: Site) -> None:
    with page_of(browser, site, "hal", "submit") as page:
        page.goto("/projects")
        cookies = page.context.cookies()
        page.get_by_role("button", name="hal").click()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_label("Token")).to_be_visible()
        page.context.add_cookies(cookies)  # type: ignore[arg-type]
        assert page.request.get("/v1/me").status == 401
