"""The page Compare over stored runs, with an api but no worker: a list that grows, axes, the scatter, and its files."""

import csv
import io
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Locator, Page, expect
from sqlalchemy import update
from sqlalchemy.orm import Session

from bench.telemetry import a_job
from hora.service import Service
from jobs.db.tables import Attempt, Job
from jobs.telemetry.ingest import MetricRow, store_metrics
from tests.browser.conftest import PATIENCE_MS, Site, StartApi, Troubles
from tests.code import store_code
from tests.stored_runs import sessions_on
from tests.waiting import until

RUNS, STEPS, TOKENS = 4, (10, 20, 30), 1000  # tokens of a step
LABEL = {"group": "a,b"}
_NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def site(api_alone: StartApi) -> Iterator[Site]:
    with api_alone() as site:
        with sessions_on(site.database_url) as sessions, sessions.begin() as session:
            for number in range(RUNS):
                _store(session, number)
        yield site


def _end(session: Session, run: str, **values: object) -> None:
    """Store a run that succeeded, with these values."""
    a_job(session, run, gpus=1)
    ended = {"status": "succeeded", "ended_at": _NOW + timedelta(hours=1), "end_reason": "completed"}
    session.execute(update(Job).where(Job.id == run).values(**ended, **values))


def _store(session: Session, number: int) -> None:
    """A run that ended: a higher rate than that of the run before, and a better result."""
    run = f"run{number}00000000"
    _end(
        session, run, name=f"run {number}", labels=LABEL, started_at=_NOW, created_at=_NOW + timedelta(seconds=number),
        summary={"val_accuracy": 0.5 + 0.1 * number, "best_epoch": number + 1},
    )  # fmt: skip
    job = session.get_one(Job, run, populate_existing=True)
    job.spec = job.spec | {"learning_rate": 0.001 * 2**number}
    session.execute(update(Attempt).where(Attempt.job_id == run).values(started_at=_NOW))
    for name, value in (("loss", 1.0), ("tokens", float(TOKENS))):
        rows = [
            MetricRow(run, name, -1, step, 1, place, _NOW + timedelta(seconds=step), value * (number + 1) * step)
            for place, step in enumerate(STEPS, 1)
        ]
        store_metrics(session, rows)


def test_a_list_is_compared_and_followed_until_a_run_is_removed(page: Page, service: Service) -> None:
    page.goto("/compare?label=group:a%252Cb&sort=created_at")
    runs = page.get_by_role("region", name="Runs", exact=True).get_by_role("listitem")
    expect(runs).to_have_count(RUNS)
    back = page.get_by_role("link", name="label group:a")
    service.submit({"dataset": "digits", "name": "fresh", "labels": LABEL})
    service.submit({"dataset": "digits", "name": "another"})
    expect(runs).to_have_count(RUNS + 1)
    expect(page.get_by_role("button", name=f"Show run {RUNS + 1}, fresh")).to_be_visible()
    page.get_by_role("button", name="Remove run 1, run 0").click()
    expect(page).to_have_url(re.compile(r"/compare\?jobs=run100000000,run200000000,run300000000,[0-9a-z]{12}$"))
    expect(back).to_have_count(0)
    page.goto("/compare?label=group:a%252Cb&sort=created_at")
    back.click()
    expect(page).to_have_url(re.compile(r"/\?label=group:a%252Cb&sort=created_at$"))
    expect(page.get_by_role("link", name="fresh")).to_be_visible()


def test_a_run_that_somebody_deletes_leaves_the_comparison(page: Page, service: Service, troubles: Troubles) -> None:
    ids = [service.submit({"dataset": "digits", "name": f"brief {n}"})["id"] for n in range(2)]
    for job_id in ids:
        service.cancel(job_id)
    page.goto(f"/compare?jobs={','.join(ids)}")
    runs = page.get_by_role("region", name="Runs", exact=True).get_by_role("listitem")
    expect(runs).to_have_count(2)
    troubles.deleted_ids.append(ids[0])
    service.delete(ids[0])
    expect(runs).to_have_count(1)
    page.get_by_role("button", name="Remove", exact=True).click()
    expect(page).to_have_url(re.compile(rf"jobs={ids[1]}$"))
    expect(page.get_by_text("was not found")).to_have_count(0)


def test_curves_stand_over_a_metric_and_on_a_logarithmic_axis(page: Page) -> None:
    page.goto(f"/compare?jobs={_ids()}&m=loss")
    loss = page.get_by_role("figure", name="loss")
    _reaches(loss, len(STEPS))  # epochs
    page.get_by_role("combobox", name="Axis").select_option("tokens")
    _reaches(loss, TOKENS * RUNS * STEPS[-1])
    page.get_by_label("Log axis").check()
    _reaches(loss, 5.0792)  # the power of ten of 120,000
    page.reload()
    _reaches(loss, 5.0792)
    loss.get_by_role("button", name="Table of loss").click()
    expect(loss.get_by_role("table").get_by_role("rowheader").first).to_have_text("10,000")


def _reaches(chart: Locator, end: float) -> None:
    """Wait until the axis of the chart ends there."""
    cursor = chart.get_by_role("slider")
    until(
        lambda: abs(float(cursor.get_attribute("aria-valuemax") or 0) - end) < 1e-3 * end, what=f"an axis up to {end}"
    )


def test_a_point_of_the_scatter_highlights_its_run_and_settings_have_correlations(page: Page) -> None:
    page.goto(f"/compare?jobs={_ids()}")
    scatter = page.get_by_role("figure", name="Scatter")
    expect(scatter.locator("circle")).to_have_count(RUNS)
    worst = scatter.locator("circle", has_text="run 0:")
    entry = page.get_by_role("listitem").filter(has=page.get_by_role("button", name="Show run 1, run 0"))
    worst.hover()
    expect(entry).to_have_attribute("data-focused", "true")
    page.get_by_role("heading", name="Compare").hover()
    expect(entry).not_to_have_attribute("data-focused", "true")
    worst.click()
    page.get_by_role("heading", name="Compare").hover()
    expect(entry).to_have_attribute("data-focused", "true")

    strengths = page.get_by_role("region", name="Correlation with val accuracy")
    expect(strengths).to_contain_text("learning rate1, n 4")
    page.get_by_role("button", name="Show run 4, run 3").click()
    expect(strengths).to_contain_text("This needs four runs")
    expect(scatter.locator("circle")).to_have_count(RUNS - 1)


def test_axes_are_moved_and_turned_and_results_are_read_against_a_baseline(page: Page) -> None:
    page.goto(f"/compare?jobs={_ids()}")
    labels = page.get_by_role("region", name="Axes of runs").locator("text[text-anchor=middle] title")
    expect(labels).to_have_text(["learning rate", "val accuracy"])
    page.get_by_role("button", name="Move to the left: val accuracy").press("Enter")
    page.get_by_role("button", name="Turn upside down: val accuracy").click()
    page.reload()
    expect(labels).to_have_text(["val accuracy", "learning rate"])
    drawing = page.get_by_role("img", name="4 runs on 2 axes")
    best, worst = (drawing.get_by_text(figure, exact=True).bounding_box() or {} for figure in ("0.8", "0.5"))
    assert best["y"] > worst["y"]

    table = page.get_by_role("region", name="Runs side by side")
    rows = table.get_by_role("row")
    table.get_by_label("Baseline").select_option("2 run 1")
    expect(page).to_have_url(re.compile("baseline=run100000000"))
    expect(rows.filter(has_text="run 0")).to_contain_text("-0.1 worse")
    expect(rows.filter(has_text="run 3")).to_contain_text("+0.2 better")
    with page.expect_download(timeout=PATIENCE_MS) as saved:
        table.get_by_role("button", name="CSV").click()
    lines = list(csv.DictReader(io.StringIO(saved.value.path().read_text("utf-8-sig"))))
    assert [line["id"] for line in lines] == _ids().split(",")


def test_the_code_of_two_scripts_is_compared_line_by_line(page: Page, site: Site) -> None:
    with sessions_on(site.database_url) as sessions:
        for number, text in ((1, "rate = 1\n"), (2, "rate = 2\n")):
            digest = store_code(sessions, {"train.py": text, "same.py": "x\n"})
            with sessions.begin() as session:
                job = session.get_one(Job, f"run{number}00000000")
                job.spec = job.spec | {"code": digest}
                job.code = digest
    page.goto(f"/compare?jobs={_ids()}")
    code = page.get_by_role("region", name="Difference of code")
    changes = code.get_by_role("region", name="Changes of train.py")
    expect(changes.get_by_text("-rate = 1", exact=True)).to_be_visible()
    expect(changes.get_by_text("+rate = 2", exact=True)).to_be_visible()
    expect(code.get_by_text("same.py")).to_have_count(0)


def _ids() -> str:
    return ",".join(f"run{number}00000000" for number in range(RUNS))
