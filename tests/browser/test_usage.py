"""The page of past usage over stored rows, with an api but no worker: its choices, its table, its file."""

import csv
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import update

from hora.service import Service
from jobs.db.tables import Job
from tests.browser.conftest import Site, StartApi
from tests.integration.api.starting_rows import an_attempt
from tests.stored_runs import sessions_on

OCTOBER, DECEMBER = datetime(2024, 10, 31, 22, tzinfo=UTC), datetime(2024, 12, 2, tzinfo=UTC)
MARKUP = "<img src=x onerror=window.isTaken=1>"


@pytest.fixture(scope="module")
def site(api_alone: StartApi) -> Iterator[Site]:
    """Two jobs: on 2 slots from 22:00 on the last of October 2024 for 3 hours, and for 1 hour on 2 December."""
    with api_alone(gpu_hour_price="2.5") as site:
        with sessions_on(site.database_url) as sessions, Service(site.url, site.token) as service:
            service.create_project({"name": "vision"})
            for owner, began_at, hours in (("ada", OCTOBER, 3), (MARKUP, DECEMBER, 1)):
                job_id = service.submit({"dataset": "digits", "project": "vision"})["id"]
                an_attempt(sessions, job_id, created_at=began_at, ended_at=began_at + timedelta(hours=hours))
                with sessions.begin() as session:
                    session.execute(update(Job).where(Job.id == job_id).values(owner=owner))
        yield site


def expect_rows(page: Page, *rows: list[str]) -> None:
    shown = page.get_by_role("region", name="usage", exact=True).get_by_role("row")
    expect(shown).to_have_count(1 + len(rows))
    for place, cells in enumerate(rows, start=1):
        expect(shown.nth(place).get_by_role("cell")).to_have_text(cells)


def test_choices_of_the_page_are_in_its_address_and_in_its_file(page: Page) -> None:
    page.goto("/projects/vision")
    page.get_by_role("link", name="Its usage").click()
    expect(page.get_by_role("heading", name="GPU-hours by month")).to_be_visible()
    page.get_by_label("From").fill("2024-10-30")
    page.get_by_label("Until").fill("2024-12-03")
    expect_rows(
        page, ["2024-12", MARKUP, "2", "1", "5"], ["2024-11", "ada", "2", "1", "5"], ["2024-10", "ada", "4", "1", "10"],
        ["8", "2", "20"],
    )  # fmt: skip
    assert page.evaluate("window.isTaken") is None
    page.get_by_label("Each").select_option("day")
    page.get_by_label("And by").select_option("host")
    expect(page.get_by_role("columnheader", name="Host")).to_be_visible()
    expect_rows(
        page, ["2024-12-02", MARKUP, "ha", "2", "1", "5"], ["2024-11-01", "ada", "ha", "2", "1", "5"],
        ["2024-10-31", "ada", "ha", "4", "1", "10"], ["8", "2", "20"],
    )  # fmt: skip
    with page.expect_download() as saved:
        page.get_by_role("link", name="CSV").click()
    assert saved.value.suggested_filename == "usage-2024-10-30-2024-12-03.csv"
    lines = list(csv.reader(saved.value.path().read_text().splitlines()))
    assert lines[1] == ["2024-10-31", "ada", "ha", "4.0", "1", "10.0"]
    page.reload()
    expect(page.get_by_role("columnheader", name="Host")).to_be_visible()
    expect(page).to_have_url(re.compile("project=vision&by=user&from=2024-10-30&until=2024-12-03&period=day&and=host"))
