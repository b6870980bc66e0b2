"""The pages over stored rows, with an api but no worker: signing in, many jobs, hostile texts, an outage."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Browser, Page, expect
from sqlalchemy import update

from bench import chromium
from bench.many_jobs import store_jobs
from bench.telemetry import a_job
from hora.service import Service
from jobs.db.tables import Attempt, Job
from jobs.telemetry.ingest import LogRow, MetricRow, store_logs, store_metrics
from tests.browser.conftest import Site, StartApi, Troubles
from tests.stored_runs import sessions_on
from tests.waiting import until

JOBS, LONG, HOSTILE = 2_000, "long00000000", "hostile00000"
MARKUP = "<img src=x onerror=window.isTaken=1>"
_NOW = datetime.now(UTC)
# Polls come every two seconds or less often.
NO_POLLS = "{ const after = setTimeout; window.setTimeout = (act, ms) => ms >= 1900 ? 0 : after(act, ms); }"


@pytest.fixture(scope="module")
def site(api_alone: StartApi) -> Iterator[Site]:
    with api_alone() as site:
        store_jobs(site.database_url, prefix="e", status="succeeded", count=JOBS)
        with sessions_on(site.database_url) as sessions, sessions.begin() as session:
            for job_id in (LONG, HOSTILE):
                a_job(session, job_id, gpus=1)
            for table, whose in ((Job, Job.id), (Attempt, Attempt.job_id)):
                session.execute(update(table).values(started_at=_NOW).where(whose.in_([LONG, HOSTILE])))
            named = {"name": MARKUP, "owner": MARKUP, "labels": {MARKUP: MARKUP}, "status": "failed", "error": MARKUP}
            ended = {"ended_at": _NOW + timedelta(seconds=1), "end_reason": "bad_data", "progress": None}
            session.execute(update(Job).values(**named, **ended).where(Job.id == HOSTILE))
            store_logs(session, [LogRow(HOSTILE, 1, rank, _NOW, MARKUP) for rank in (-1, 0)])
            store_metrics(session, [MetricRow(LONG, "loss", 0, 1, 1, 1, _NOW, 0.5)])
        yield site


def test_a_token_opens_the_page_and_a_wrong_token_does_not(stranger: Page, site: Site, troubles: Troubles) -> None:
    troubles.allowed.append("401")
    stranger.goto("/hosts")
    token = stranger.get_by_label("Token")
    token.fill("not the token")
    token.press("Enter")
    expect(stranger.get_by_role("alert")).to_contain_text("unknown, has expired or was revoked")
    token.fill(site.token)
    stranger.get_by_role("button", name="Sign in").click()
    expect(stranger.get_by_title("Signed in with the scope")).to_be_visible()
    expect(stranger).to_have_url(f"{site.url}/hosts")


def test_a_login_link_works_once(stranger: Page, service: Service, troubles: Troubles) -> None:
    troubles.allowed.append("401")
    link = service.login_link()["url"]
    stranger.goto(link)
    expect(stranger.get_by_title("Signed in with the scope")).to_be_visible()
    stranger.context.clear_cookies()
    stranger.goto(link)
    expect(stranger.get_by_role("status")).to_contain_text("This login link is not valid")
    expect(stranger.get_by_label("Token")).to_be_visible()


def test_scrolling_many_jobs_keeps_under_100_rows_in_the_document(page: Page) -> None:
    page.goto("/")
    rows = page.get_by_role("row")
    expect(rows.nth(10)).to_be_visible()
    page.get_by_role("region", name="Jobs").hover()
    oldest = page.get_by_role("link", name=f"name-{JOBS % 1000}", exact=True).and_(page.locator(f"[href$=e{JOBS:010}]"))

    def scrolled_to_the_end() -> bool:
        page.mouse.wheel(0, 50_000)
        assert rows.count() < 100, "rows that nobody sees are in the document"
        return oldest.is_visible()

    until(scrolled_to_the_end, what="the oldest job")


def test_the_address_keeps_the_filters_and_back_undoes_each_and_a_typed_word_as_one_step(page: Page) -> None:
    search = page.get_by_role("searchbox", name="Search jobs")
    succeeded = page.get_by_role("button", name="succeeded")
    by_name = page.get_by_role("columnheader", name="Name")
    page.goto("/")
    succeeded.click()
    page.clock.set_fixed_time(datetime.now(UTC))  # no pause between letters, whatever else the machine does
    search.press_sequentially("name-7", delay=300)
    expect(page).to_have_url(re.compile(r"\?status=succeeded&q=name-7$"))
    by_name.get_by_role("button").click()
    expect(by_name).to_have_attribute("aria-sort", "ascending")
    first, oldest, address = page.get_by_role("row").nth(1), f"e{JOBS - 1000 + 7:010}", page.url
    expect(first).to_contain_text(oldest)
    page.reload()
    expect(first).to_contain_text(oldest)
    assert page.url == address
    expect(succeeded).to_have_attribute("aria-pressed", "true")
    page.go_back()
    expect(by_name).not_to_have_attribute("aria-sort", "ascending")
    expect(search).to_have_value("name-7")
    page.go_back()
    expect(search).to_have_value("")
    expect(succeeded).to_have_attribute("aria-pressed", "true")


def test_the_keyboard_opens_a_job_from_the_table_and_then_its_logs(page: Page) -> None:
    page.goto("/?q=telemetry")
    expect(page.get_by_role("link", name="telemetry")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/jobs/{LONG}$"))
    page.get_by_role("link", name="Logs", exact=True).press("Enter")
    expect(page).to_have_url(re.compile(f"/jobs/{LONG}\\?tab=logs$"))
    expect(page.get_by_role("region", name="Logs")).to_be_visible()


def test_markup_in_names_and_logs_is_shown_as_text(page: Page) -> None:
    job = f"/jobs/{HOSTILE}"
    for path in (f"/?q={HOSTILE}", job, f"{job}?tab=logs", f"/compare?jobs={HOSTILE},{LONG}"):
        page.goto(path)
        expect(page.get_by_role("main").get_by_text(MARKUP).and_(page.locator(":not(option)")).first).to_be_visible()
        expect(page.locator("img[src=x]")).to_have_count(0)
        assert page.evaluate("window.isTaken") is None, path


def test_a_job_is_edited_in_a_dialog(page: Page, service: Service, troubles: Troubles) -> None:
    troubles.allowed.append("422")  # the answer to the wrong priority
    job_id = service.submit({"name": "first", "dataset": "digits", "labels": {"team": "vision", "draft": "yes"}})["id"]
    page.goto(f"/jobs/{job_id}")
    page.get_by_role("button", name="Edit").click()
    dialog = page.get_by_role("dialog", name="Edit first")
    name, priority = dialog.get_by_label("Name"), dialog.get_by_label("Priority")
    expect(name).to_be_focused()
    priority.fill("800")
    priority.press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("priority must be at most 100")
    expect(priority).to_have_attribute("aria-invalid", "true")
    priority.fill("80")
    name.fill("second")
    dialog.get_by_label("Time limit, s").fill("7200")
    dialog.get_by_label("Labels").fill("team=polar\nrun=2")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).not_to_be_visible()
    expect(page.get_by_role("heading", name="second")).to_be_visible()
    expect(page.get_by_role("link", name="team: polar")).to_be_visible()
    job = service.job(job_id)
    assert (job["priority"], job["spec"]["time_limit_s"], job["labels"]) == (80, 7200, {"team": "polar", "run": "2"})
    page.get_by_role("button", name="Edit").click()
    dialog = page.get_by_role("dialog", name="Edit second")
    expect(dialog.get_by_label("Priority")).to_be_visible()
    service.cancel(job_id)
    expect(dialog.get_by_label("Priority")).to_have_count(0)  # of what has ended only names and labels can change
    expect(dialog.get_by_label("Labels")).to_be_visible()


def test_notes_are_written_with_a_preview_and_a_star_is_given(page: Page, service: Service) -> None:
    job_id = service.submit({"name": "noted", "dataset": "digits"})["id"]
    service.cancel(job_id)
    page.goto(f"/jobs/{job_id}?tab=notes")
    page.get_by_role("button", name="Write notes").click()
    page.get_by_label("Markdown").fill(
        f"# Why\n\n{MARKUP} [x](javascript:window.isTaken=1) [paper](https://example.com/)"
    )
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("heading", name="Why")).to_be_visible()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("button", name="Edit", exact=True)).to_be_visible()
    notes = page.get_by_role("region", name="Notes")
    expect(notes.get_by_text(MARKUP)).to_be_visible()
    expect(notes.get_by_role("link")).to_have_text(["paper"])
    expect(page.locator("img[src=x]")).to_have_count(0)
    assert page.evaluate("window.isTaken") is None
    star = page.get_by_role("button", name=f"Star noted {job_id}")
    star.click()
    expect(star).to_have_attribute("aria-pressed", "true")
    until(lambda: service.job(job_id)["starred"], what="the star")
    page.goto("/?starred=true")
    expect(page.get_by_role("link", name="noted", exact=True)).to_be_visible()
    expect(page.locator("tr[data-job]")).to_have_count(1)


def test_an_admin_drags_a_job_in_the_queue_and_moves_one_with_the_keyboard(
    page: Page, site: Site, service: Service, browser: Browser
) -> None:
    names = ("first", "second", "third")
    jobs = {name: service.submit({"dataset": "digits", "name": name, "priority": 70})["id"] for name in names}
    page.goto("/queue")
    rows = page.get_by_role("region", name="Jobs that wait").locator("tbody tr")
    for place, name in enumerate(names):
        expect(rows.nth(place)).to_contain_text(name)
    third = page.get_by_role("button", name="Move third")
    third.drag_to(rows.nth(0), target_position={"x": 300, "y": 3})
    dialog = page.get_by_role("dialog", name="Move third")
    expect(dialog.get_by_role("status")).to_have_text("Priority 70 → 71. It comes before 2 jobs, to place 1.")
    assert service.job(jobs["third"])["priority"] == 70  # not before it is confirmed
    dialog.get_by_role("button", name="Move").click()
    expect(rows.nth(0)).to_contain_text("third")
    expect(third).to_be_focused()
    assert [job["name"] for job in service.queue(limit=3)["items"]] == ["third", "first", "second"]

    third.press("Alt+ArrowDown")  # only behind both: they have one priority
    expect(dialog.get_by_role("status")).to_contain_text("Place 2 cannot be reached")
    dialog.get_by_label("To place").fill("3")
    expect(dialog.get_by_role("status")).to_contain_text("Priority 71 → 70. It comes after 2 jobs, to place 3")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert service.job(jobs["third"])["priority"] == 71

    token = service.create_token("viewer", user="viewer", scope="read")["token"]
    with Service(site.url, token) as viewer:
        context = browser.new_context(base_url=site.url, storage_state=chromium.signed_in(browser, viewer))
    reader = context.new_page()
    reader.goto("/queue")
    expect(reader.get_by_role("link", name="third")).to_be_visible()
    expect(reader.get_by_role("button", name="Move third")).to_have_count(0)
    context.close()
    for job_id in jobs.values():
        service.cancel(job_id)


def test_what_happens_to_a_job_is_shown_without_asking_again(page: Page, service: Service, troubles: Troubles) -> None:
    job_id = service.submit({"dataset": "digits", "name": "watched", "priority": 90})["id"]
    troubles.deleted_ids.append(job_id)
    of_job, of_queue = page, page.context.new_page()
    for other, path in ((of_job, f"/jobs/{job_id}"), (of_queue, "/queue")):
        other.add_init_script(NO_POLLS)
        other.goto(path)
        expect(other.get_by_text("watched", exact=True).first).to_be_visible()
    row = of_queue.get_by_role("link", name="renamed")
    service.update(job_id, {"name": "renamed"})
    expect(of_job.get_by_role("heading", name="renamed")).to_be_visible()
    expect(of_queue.get_by_role("link", name="renamed")).to_be_visible()

    service.pause(job_id)
    expect(of_job.get_by_role("button", name="Resume")).to_be_visible()
    service.cancel(job_id)
    expect(of_job.get_by_text("cancelled").first).to_be_visible()
    expect(row).to_have_count(0)

    of_queue.goto("/")
    expect(row).to_be_visible()
    service.delete(job_id)
    expect(of_job.get_by_role("heading", name="This job was deleted")).to_be_visible()
    expect(row).to_have_count(0)


def test_a_study_is_written_in_the_form_and_submitted(page: Page, service: Service, troubles: Troubles) -> None:
    troubles.allowed.append("422")
    page.goto("/studies")
    page.get_by_role("link", name="New study").click()
    page.get_by_label("Name").fill("which batch")
    page.get_by_label("Field 1", exact=True).fill("batch_size")
    page.get_by_label("Values of field 1").fill("32, 64")
    page.get_by_role("button", name="Add a field").press("Enter")
    expect(page.get_by_label("Field 2", exact=True)).to_be_focused()
    page.keyboard.type("learning_rate")
    page.get_by_label("Values of field 2").fill("0.001, 0.01, 0.1")
    page.get_by_label("Most jobs").fill("5")
    expect(page.get_by_role("alert")).to_contain_text("are 6 jobs, more than max_jobs (5)")
    page.get_by_label("Most jobs").fill("12")
    expect(page.get_by_text("6 jobs: 6 cells")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Values of field 2")).to_have_value("0.001, 0.01, 0.1")
    page.get_by_role("button", name="Search: by what").click()
    page.get_by_label("Values of field 2").fill("0.001 to 0.1 log")
    page.get_by_role("textbox", name="Trials").fill("7")
    expect(page.get_by_text("7 jobs, chosen while they run")).to_be_visible()
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("heading", name="which batch")).to_be_visible()
    study = service.study(page.url.rsplit("/", 1)[-1])
    assert study["search"]["space"] == {"batch_size": [32, 64], "learning_rate": {"log": [0.001, 0.1]}}
