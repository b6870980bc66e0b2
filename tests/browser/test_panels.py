"""Charts of a script with many metrics: sections, search, ranges of y axes; the ways between jobs; the quick search."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from bench.telemetry import a_job
from hora.service import Service
from jobs.db.tables import Attempt, Job
from jobs.model.states import EndReason, Status
from jobs.telemetry.ingest import MetricRow, store_metrics
from tests.browser.conftest import Site, Troubles
from tests.integration.jobs.job_rows import a_host
from tests.stored_runs import ended_script, sessions_on


def _metrics(step: int) -> dict[str, float]:
    norms = {f"layer_{place}/norm_{kind}": place + 1 / step for place in range(20) for kind in ("a", "b")}
    heads = {f"head_{place}": float(step * place) for place in range(14)}
    return {"train/loss": 1000.0 if step == 1 else 1 / step, "train/accuracy": 1 - 1 / step, **norms, **heads}


@pytest.fixture(scope="module")
def jobs(site: Site, service: Service) -> list[dict[str, Any]]:
    """Two jobs that ended, the older one first."""
    steps = [_metrics(step) for step in range(1, 41)]
    with sessions_on(site.database_url) as sessions:
        a_host(sessions)
        ids = [ended_script(sessions, site.home, steps, name=name) for name in ("older run", "newer run")]
    return [service.job(job_id) for job_id in ids]


def _drag(page: Page, chart: Locator, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Drag over a chart between two places, as shares of its area."""
    area = chart.locator(".u-over")
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    assert box is not None
    places = [(box["x"] + box["width"] * x, box["y"] + box["height"] * y) for x, y in (start, end)]
    page.mouse.move(*places[0])
    page.mouse.down()
    page.mouse.move(*places[1], steps=4)
    page.mouse.up()


def _svg(page: Page, chart: Locator) -> str:
    """The chart as an SVG, which has the figures of its axes as texts."""
    chart.get_by_role("button", name="Save train/loss", exact=True).click()
    with page.expect_download() as download:
        chart.get_by_role("button", name="Save train/loss as SVG").click()
    return download.value.path().read_text()


def test_the_y_axis_is_zoomed_and_leaves_out_outliers(page: Page, jobs: list[dict[str, Any]]) -> None:
    page.goto(f"/jobs/{jobs[0]['id']}?find=train/loss&x=step")
    chart = page.get_by_role("figure", name="train/loss", exact=True)
    assert ">1000<" in _svg(page, chart).replace(",", "")
    page.get_by_role("checkbox", name="Without outliers").check()
    expect(page).to_have_url(re.compile("crop=1"))
    assert ">1000<" not in _svg(page, chart).replace(",", "")
    page.get_by_role("checkbox", name="Without outliers").uncheck()

    _drag(page, chart, (0.5, 0.5), (0.52, 0.9))
    expect(page).to_have_url(re.compile(r"y=train-loss:[\d.]+:[\d.]+"))
    page.reload()
    expect(chart.locator(".u-over")).to_be_visible()
    assert ">1000<" not in _svg(page, chart).replace(",", "")
    page.get_by_role("button", name="Show all").click()
    expect(page).not_to_have_url(re.compile("y="))
    _drag(page, chart, (0.2, 0.5), (0.6, 0.5))
    expect(page).to_have_url(re.compile(r"from=[\d.]+&to=[\d.]+"))


def test_keys_lead_to_the_other_jobs_of_the_list(page: Page, jobs: list[dict[str, Any]]) -> None:
    page.goto(f"/jobs/{jobs[0]['id']}?tab=events")
    expect(page.get_by_role("heading", name="older run")).to_be_visible()
    expect(page.get_by_role("link", name="Previous job")).to_have_count(0)  # this person saw no list
    page.goto("/?q=run")
    page.get_by_role("link", name="newer run").first.click()
    expect(page.get_by_role("heading", name="newer run")).to_be_visible()
    page.get_by_role("link", name="Logs", exact=True).click()
    page.keyboard.press("j")
    expect(page).to_have_url(re.compile(f"/jobs/{jobs[0]['id']}.*tab=logs"))
    expect(page.get_by_role("heading", name="older run")).to_be_visible()
    expect(page.get_by_role("link", name="Next job")).to_have_count(0)
    page.get_by_role("link", name="Previous job").click()
    expect(page.get_by_role("heading", name="newer run")).to_be_visible()


@pytest.fixture
def continued(site: Site) -> dict[str, str]:
    """A job of three epochs, and one that continues it from the second. The ids by name."""
    ids, step, now = {"first": "first0000000", "longer": "longer000000"}, 1000, datetime.now(UTC)
    with sessions_on(site.database_url) as sessions, sessions.begin() as session:
        for (name, job_id), epochs in zip(ids.items(), ((1, 2, 3), (3, 4, 5)), strict=True):
            attempt = session.get_one(Attempt, a_job(session, job_id, gpus=1))
            attempt.ended_at, attempt.end_reason = now, EndReason.COMPLETED
            job = session.get_one(Job, job_id)
            job.name, job.status, job.ended_at, job.end_reason = name, Status.SUCCEEDED, now, EndReason.COMPLETED
            if name == "longer":
                job.spec = job.spec | {"continue_from": f"job:{ids['first']}@2"}
            rows = [MetricRow(job_id, "loss", -1, epoch * step, 1, epoch, now, 10.0 - epoch) for epoch in epochs]
            store_metrics(session, rows)
    return ids


def test_a_continued_job_shows_the_curve_of_the_job_before_until_that_is_deleted(
    page: Page, service: Service, troubles: Troubles, continued: dict[str, str]
) -> None:
    page.goto(f"/jobs/{continued['longer']}?x=epoch")
    expect(page.get_by_text(re.compile("first from epoch 2"))).to_be_visible()
    loss = page.get_by_role("figure", name="Loss", exact=True)
    expect(loss.get_by_role("listitem").filter(has_text="first")).to_contain_text("8")  # not of its last epoch, 7
    expect(loss.get_by_role("slider")).to_have_attribute("aria-valuemin", "1")
    expect(page.get_by_role("link", name="first", exact=True)).to_be_visible()
    troubles.deleted_ids.append(continued["first"])
    service.delete(continued["first"])
    page.goto(f"/jobs/{continued['longer']}?x=epoch")
    expect(page.get_by_text(re.compile(f"{continued['first']} from epoch 2"))).to_be_visible()
    expect(page.get_by_role("link", name=continued["first"])).to_have_count(0)
    expect(loss).to_be_visible()
    expect(loss.get_by_role("listitem").filter(has_text="first")).to_have_count(0)


def test_keys_go_anywhere_and_are_listed(page: Page, jobs: list[dict[str, Any]], service: Service) -> None:
    page.goto("/studies")
    expect(page.get_by_role("heading", name="Studies", level=1)).to_be_visible()
    page.keyboard.press("Control+k")
    dialog = page.get_by_role("dialog", name="Go to")
    expect(dialog.get_by_role("link", name="Queue")).to_be_visible()
    page.keyboard.type("older")
    expect(dialog.get_by_role("link")).to_have_text(["older run job"])
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/jobs/{jobs[0]['id']}"))
    expect(dialog).to_have_count(0)

    page.keyboard.press("Control+k")
    page.keyboard.type(service.hosts()[0]["name"])
    expect(dialog.get_by_role("link", name="host").first).to_be_visible()
    page.goto("/")
    expect(page.get_by_role("link", name="newer run").first).to_be_visible()
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    expect(keys).to_contain_text("select the job")
    page.keyboard.press("Escape")
    expect(keys).to_have_count(0)
