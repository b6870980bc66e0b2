"""Charts that people make: on the page of a job, on that of another job of the project, in a link, in a comparison."""

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, StorageState, expect

from hora.service import Service
from tests.browser.axe import issues
from tests.browser.conftest import Site
from tests.integration.jobs.job_rows import a_host
from tests.stored_runs import ended_script, sessions_on

LOSSES = [
    {"train/loss": 2 / step, "val-loss": 3 / step, **{f"layer_{place}/norm": place + 1 / step for place in range(3)}}
    for step in range(1, 41)
]


@pytest.fixture(scope="module")
def jobs(site: Site, service: Service) -> list[dict[str, Any]]:
    """Two jobs with these metrics, and one without any of them."""
    other = [{"other": float(step)} for step in range(1, 9)]
    with sessions_on(site.database_url) as sessions:
        a_host(sessions)
        ids = [ended_script(sessions, site.home, steps) for steps in (LOSSES, LOSSES, other)]
    return [service.job(job_id) for job_id in ids]


def _add(page: Page, metrics: str, title: str = "") -> None:
    page.get_by_role("button", name="New chart").press("Enter")
    expect(page.get_by_role("textbox", name="Metrics")).to_be_focused()
    page.keyboard.type(metrics)
    page.get_by_role("textbox", name="Title (optional)").fill(title)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)


def _expect_titles(page: Page, *titles: str) -> None:
    figures = page.get_by_role("region", name="Own charts").get_by_role("figure")
    expect(figures).to_have_count(len(titles))
    for place, title in enumerate(titles):
        expect(figures.nth(place)).to_have_attribute("aria-label", title)


def test_a_chart_is_made_changed_moved_and_removed_by_keyboard(page: Page, jobs: list[dict[str, Any]]) -> None:
    page.goto(f"/jobs/{jobs[0]['id']}")
    page.get_by_role("button", name="New chart").click()
    metrics, matches = page.get_by_role("textbox", name="Metrics"), page.get_by_role("list", name="What matches")
    metrics.fill("layer_*, train/loss - val, log(2")
    says = ("3 metrics: layer_0/norm", "no metric here is called “val”", "a “\\)” is missing before the end")
    expect(matches.get_by_role("listitem")).to_have_text([re.compile(each) for each in says])
    expect(page.get_by_role("button", name="Save", exact=True)).to_be_disabled()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)

    _add(page, '"val-loss" - train/loss', "Gap")
    own = page.get_by_role("region", name="Own charts")
    expect(own.get_by_role("figure", name="Gap")).to_contain_text("0.025 to 1")
    _add(page, "layer_*")
    _add(page, "log10(train/loss)")
    page.get_by_role("button", name="Change Gap").press("Enter")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    _expect_titles(page, "Gap", "layer_*", "log10(train/loss)")
    move = page.get_by_role("button", name="Move right")
    move.press("Enter")
    move.press("Enter")
    expect(move).to_be_disabled()
    expect(move).to_be_focused()
    page.keyboard.press("Escape")
    _expect_titles(page, "layer_*", "log10(train/loss)", "Gap")

    page.get_by_role("button", name="Change layer_*").click()
    page.get_by_role("group", name="Chart layer_*").get_by_role("button", name="Edit…").click()
    page.get_by_role("textbox", name="Title (optional)").fill("Norms")
    page.get_by_role("checkbox", name="Log axis").check()
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("button", name="Change log10(train/loss)").click()
    page.get_by_role("button", name="Remove").click()
    page.reload()
    expect(own.get_by_role("figure", name="Norms")).to_contain_text("layer_2/norm")
    _expect_titles(page, "Norms", "Gap")


def test_the_charts_are_those_of_a_project_and_of_a_link(
    browser: Browser, site: Site, session: StorageState, page: Page, jobs: list[dict[str, Any]]
) -> None:
    page.goto(f"/jobs/{jobs[0]['id']}")
    _add(page, "train/loss, val-loss", "Losses")
    page.get_by_role("link", name="Link to these").click()
    expect(page).to_have_url(re.compile("chart="))
    link = page.url
    page.goto(f"/jobs/{jobs[1]['id']}")
    expect(page.get_by_role("figure", name="Losses")).to_be_visible()
    page.goto(f"/jobs/{jobs[2]['id']}")
    own = page.get_by_role("region", name="Own charts")
    expect(own).to_contain_text("Not in this job:")
    expect(own.get_by_role("figure")).to_have_count(0)

    other = browser.new_context(base_url=site.url, storage_state=session, bypass_csp=True).new_page()
    other.goto(f"/jobs/{jobs[0]['id']}")
    other.get_by_role("button", name="New chart").click()
    assert issues(other) == []
    other.keyboard.press("Escape")
    _add(other, "layer_*")
    other.goto(link)
    expect(other.get_by_role("figure", name="Losses")).to_be_visible()
    _add(other, "train/loss * 2")  # in the link alone
    other.get_by_role("button", name="Change train/loss * 2").click()
    other.get_by_role("button", name="Remove").click()
    other.get_by_role("button", name="Keep").click()
    expect(other).not_to_have_url(re.compile("chart="))
    expect(other.get_by_role("button", name="Change layer_*")).to_be_visible()
    _expect_titles(other, "layer_*", "Losses")
    other.context.close()


def test_compared_runs_have_the_own_charts(page: Page, jobs: list[dict[str, Any]]) -> None:
    gap = "chart=|Gap|val-loss%20-%20train/loss,%20%22val-loss%22%20/%20gpus"
    page.goto(f"/compare?jobs={jobs[0]['id']},{jobs[1]['id']}&x=step&{gap}")
    chart = page.get_by_role("region", name="Own charts").get_by_role("figure", name='"val-loss" / gpus')
    expect(chart).to_contain_text("0.075 to 3")
    expect(chart.get_by_role("listitem")).to_have_count(2)
