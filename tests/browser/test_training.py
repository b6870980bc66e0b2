"""The pages over real jobs: one is submitted, watched and cancelled; others are compared, in a study, or failed."""

import os
import re
import signal
from dataclasses import dataclass

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from hora.service import Service
from hora.stack.control import Stack
from tests.browser.conftest import STARTED_MS, Troubles
from tests.browser.layout import assert_still, watch_shifts
from tests.browser.scene import BAD_DATA
from tests.waiting import until

ENDLESS = '{"model":"mlp","batch_size":8,"epochs":100000,"early_stopping":null}'
STUDY = {
    "name": "ranks",
    "base": {"dataset": "digits", "model": "mlp", "epochs": 8, "early_stopping": None},
    "grid": {"gpus": [1, 2]},
}


@pytest.fixture(scope="module")
def site(training_site: Stack) -> Stack:
    return training_site


@dataclass(frozen=True)
class Scene:
    """Ended jobs: two of a study, on one and on two ranks, and one that failed before its first step."""

    study: str
    one_gpu: str
    two_gpus: str
    failed: str


@pytest.fixture(scope="module")
def scene(service: Service) -> Scene:
    failed = service.submit(BAD_DATA)["id"]
    study = service.submit_study(STUDY)["id"]
    service.wait(failed, timeout_s=240)
    cells = service.wait_study(study, timeout_s=240)["cells"]
    return Scene(study, *(cell["jobs"][0]["id"] for cell in cells), failed=failed)


def test_a_study_opened_from_the_list_shows_its_speedup_cells_and_findings(page: Page, scene: Scene) -> None:
    page.goto("/studies")
    page.get_by_role("link", name="ranks").click()
    expect(page).to_have_url(re.compile(f"/studies/{scene.study}$"))
    expect(page.get_by_role("figure", name="Speed-up")).to_be_visible()
    expect(page.get_by_role("region", name="Learning curves").get_by_role("figure")).to_have_count(3)
    cells = page.get_by_role("region", name="Table of cells").get_by_role("row")
    expect(cells).to_have_count(3)  # the headings, and a cell for each number of ranks
    expect(page.get_by_role("region", name="Findings")).to_contain_text("2 CPU slots")


def test_the_page_of_a_failed_job_begins_with_the_reason(page: Page, scene: Scene) -> None:
    page.goto(f"/jobs/{scene.failed}")
    expect(page.get_by_role("region", name="Timeline")).to_be_visible()
    first = page.get_by_role("main").get_by_role("region").first
    expect(first).to_have_accessible_name("Why it failed")
    expect(first).to_contain_text("those of the training data (16, 16, 3)")
    expect(first.get_by_role("region", name="Last lines of the log")).to_contain_text("leaving: bad_data")
    expect(page.get_by_role("slider")).to_have_count(0)


def _lose_answer(route: Route) -> None:
    route.fetch()
    route.abort()


def test_an_ended_job_is_trained_on_and_run_again_once(
    page: Page, service: Service, scene: Scene, troubles: Troubles
) -> None:
    ended = service.job(scene.one_gpu)
    page.goto(f"/jobs/{ended['id']}")
    page.get_by_role("link", name="Train on").click()
    expect(page).to_have_url(re.compile(f"weights%22:%22job:{ended['id']}%22,%22freeze_base%22:false"))
    page.goto(f"/jobs/{ended['id']}")
    before = len(list(service.jobs()))
    troubles.allowed += ["net::ERR_FAILED"]
    page.route("**/clone", _lose_answer, times=1)
    for _ in range(2):
        page.get_by_role("button", name="Run again").click()
        page.get_by_role("dialog").get_by_role("button", name="Submit it").click()
        expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page).not_to_have_url(re.compile(ended["id"]))
    again = service.cancel(page.url.rsplit("/", 1)[-1])
    assert again["spec"] == ended["spec"]
    assert len(list(service.jobs())) == before + 1


def test_a_job_is_submitted_watched_and_cancelled_without_a_reload(page: Page, troubles: Troubles) -> None:
    troubles.allowed.append("422")  # the answer to the wrong batch size
    watch_shifts(page)
    page.goto(f"/new?spec={ENDLESS}")
    page.evaluate("window.isTheSame = true")
    _submit(page)
    page.evaluate("window.shifts = []")  # from here on nobody touches the page of the job
    expect(page.get_by_text("running").first).to_be_visible(timeout=STARTED_MS)
    for chart in ("Loss", "CPU, % of a core"):
        grows(page.get_by_role("figure", name=chart))
    assert_still(page, "a live job")
    in_step(page.get_by_role("slider", name=re.compile("^Cursor of ")))
    page.get_by_role("link", name="Logs").click()
    page.get_by_role("button", name="From").click()
    page.get_by_role("checkbox", name="rank 0").check()  # the launcher prints a lot when it is stopped
    page.keyboard.press("Escape")
    lines = page.get_by_role("region", name="Log lines")
    expect(lines).to_contain_text(re.compile(r"epoch \d+ of "))
    page.get_by_role("link", name="Overview").click()
    page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
    page.evaluate("window.shifts = []")
    expect(page.get_by_text("cancelled").filter(visible=True).first).to_be_visible()
    expect(page.get_by_role("button", name="Edit")).to_be_visible()
    assert_still(page, "a job that ends on a phone")
    page.get_by_role("link", name="Logs").click()
    expect(lines).to_contain_text("leaving: stop_requested")
    assert page.evaluate("window.isTheSame"), "the page was loaded anew"


def test_the_page_reports_an_outage_of_the_api_and_recovers_by_itself(
    page: Page, site: Stack, service: Service, scene: Scene, troubles: Troubles
) -> None:
    troubles.allowed += ["net::ERR_", "502", "503"]
    page.goto("/")
    rows = page.get_by_role("row")
    expect(rows.nth(1)).to_be_visible()
    page.evaluate("window.isTheSame = true")
    os.kill(site.pid_of("api"), signal.SIGKILL)
    notice = page.get_by_text("The api does not answer")
    expect(notice).to_be_visible()
    expect(rows.nth(1)).to_be_visible()
    expect(notice).to_be_hidden(timeout=STARTED_MS)
    job = service.submit({"dataset": "digits", "name": "after the outage"})
    expect(page.get_by_role("link", name=job["name"])).to_be_visible()
    assert page.evaluate("window.isTheSame"), "the page was loaded anew"


def _submit(page: Page) -> None:
    """Fill in and submit the form of a new job. A wrong batch size is first reported at its field."""
    page.get_by_role("combobox", name="Dataset").fill("digits")
    batch = page.get_by_role("textbox", name="Batch size")
    batch.fill("0")
    expect(batch).to_have_attribute("aria-invalid", "true")
    expect(batch).to_have_accessible_description(re.compile("must be at least 1.*It was 0"))
    batch.fill("8")
    expect(batch).to_have_attribute("aria-invalid", "false")
    expect(page.get_by_role("region", name="Plan")).to_contain_text("168")  # steps of 8 samples
    page.get_by_role("button", name="Submit").click()
    expect(page).to_have_url(re.compile(r"/jobs/[0-9a-z]{12}$"))


def grows(chart: Locator) -> None:
    """Wait until the chart shows a newer value and its axis reaches further."""
    cursor = chart.get_by_role("slider")
    expect(cursor).to_be_visible(timeout=STARTED_MS)
    expect(chart).to_contain_text(re.compile(r"\d"))
    newest, reach = chart.inner_text(), cursor.get_attribute("aria-valuemax")
    assert reach is not None
    expect(chart).not_to_have_text(newest, use_inner_text=True)
    expect(cursor).not_to_have_attribute("aria-valuemax", reach)


def in_step(cursors: Locator) -> None:
    """Point at the middle of the first chart: the cursors of all charts move there."""
    cursors.first.hover()

    def at() -> set[str | None]:
        return {cursor.get_attribute("aria-valuenow") for cursor in cursors.all()}

    (middle,) = until(lambda: places if len(places := at()) == 1 else None, what="one place of all cursors")
    assert middle != cursors.first.get_attribute("aria-valuemax")
