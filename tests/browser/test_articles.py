"""Articles in a real Chromium: written with a preview, read, changed, and read in an earlier version."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from hora.service import Service
from tests.browser.conftest import PATIENCE_MS, Site, StartApi, Troubles

TEXT = "Read *this*.\n\n```hora\ntable: name, owner\nfilter: name=a-run\n```\n"


@pytest.fixture(scope="module")
def site(api_alone: StartApi) -> Iterator[Site]:
    with api_alone() as site:
        with Service(site.url, site.token) as service:
            service.submit({"dataset": "digits", "name": "a-run"})
        yield site


def test_an_article_is_written_with_a_preview_and_has_versions(page: Page, troubles: Troubles) -> None:
    page.goto("/articles")
    expect(page.get_by_text("No articles yet")).to_be_visible()
    page.get_by_role("link", name="New article").click()
    text, preview = page.get_by_label("Text, in Markdown"), page.get_by_role("region", name="Preview")
    page.get_by_label("Title").fill("Which batch?")
    text.fill(TEXT)
    expect(preview.get_by_role("emphasis")).to_have_text("this")
    expect(preview.get_by_role("cell", name="a-run")).to_be_visible()

    troubles.allowed.append("422")  # the browser logs the answer about the mistake
    text.fill(TEXT.replace("table:", "tabel:"))
    expect(preview).to_contain_text("did you mean `table`?")
    expect(page.get_by_role("button", name="Save")).to_be_disabled()
    text.fill(TEXT)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="Which batch?", level=1)).to_be_visible()
    expect(page).to_have_url(re.compile("/articles/[0-9a-z]+$"))

    page.get_by_role("button", name="Edit").click()
    text.fill("Read that.")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Read that.")).to_be_visible()
    page.get_by_label("Version").select_option("1")
    expect(page.get_by_role("cell", name="a-run")).to_be_visible()
    with page.expect_download(timeout=PATIENCE_MS) as saved:
        page.get_by_role("link", name="HTML").click()
    assert "<em>this</em>" in saved.value.path().read_text()


def test_nobody_overwrites_what_somebody_else_wrote(page: Page, service: Service, troubles: Troubles) -> None:
    article = service.create_article("Shared", "First.")
    page.goto(f"/articles/{article['id']}")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Text, in Markdown").fill("Mine.")
    service.change_article(article["id"], version=1, text="Theirs.")
    troubles.allowed.append("409")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("has version 2 now")
    expect(page.get_by_label("Text, in Markdown")).to_have_value("Mine.")
    assert service.article(article["id"])["text"] == "Theirs."
