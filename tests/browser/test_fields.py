"""The list of jobs by any field: its filters, order and groups, and what is done to many jobs at once."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, StorageState, expect
from sqlalchemy import update

from bench.many_jobs import store_jobs
from hora.service import Service
from jobs.db.tables import Job
from tests.browser.axe import issues
from tests.browser.conftest import Site, StartApi, Troubles, opened
from tests.stored_runs import sessions_on
from tests.waiting import until

JOBS = 12
NARROW = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def site(api_alone: StartApi) -> Iterator[Site]:
    """Twelve jobs: batches 32, 64 and 128 in turn, a loss that grows with the id, and a team for every second one."""
    with api_alone() as site:
        store_jobs(site.database_url, prefix="e", status="succeeded", count=JOBS)
        with sessions_on(site.database_url) as sessions, sessions.begin() as session:
            for n in range(1, JOBS + 1):
                job = session.get_one(Job, f"e{n:010}")
                loss = n / 10
                values = {
                    "name": f"run {n}", "spec": {**job.spec, "batch_size": 32 * 2 ** (n % 3)},
                    "labels": {"team": "a or b"} if n % 2 else {},
                    "metrics": {"val_loss": {"best": loss, "last": loss}, "iou": {"best": n, "last": n}},
                }  # fmt: skip
                session.execute(update(Job).where(Job.id == job.id).values(**values))
        yield site


def expect_jobs(page: Page, *numbers: int) -> None:
    """Wait until the list has just these runs, from top to bottom."""
    expect(page.locator("[data-job] a[title^='run ']")).to_have_text([f"run {n}" for n in numbers])


def line(page: Page, place: int) -> Locator:
    """The lines of a condition in the open builder."""
    return page.get_by_role("group", name=f"Condition {place}")


def _offered(field: Locator) -> list[str]:
    return list(field.evaluate("input => [...input.list.options].map(each => each.value)"))


def test_conditions_are_built_with_the_keyboard_changed_at_their_chips_and_undone(page: Page) -> None:
    page.goto("/")
    page.get_by_role("button", name="Filter", exact=True).press("Enter")
    field = line(page, 1).get_by_label("Field")
    expect(field).to_be_focused()
    until(lambda: "spec.batch_size" in _offered(field), what="the field among those that are offered")
    page.keyboard.type("spec.batch_size")
    page.keyboard.press("Tab")
    line(page, 1).get_by_label("Operator").select_option("≥")
    value = line(page, 1).get_by_label("Value")
    value.focus()
    until(lambda: _offered(value) == ["32", "64", "128"], what="the values that jobs have")
    page.keyboard.type("128")
    page.keyboard.press("Enter")
    expect_jobs(page, 2, 5, 8, 11)
    line(page, 1).get_by_role("button", name="or").click()
    expect(line(page, 1).get_by_label("Value").nth(1)).to_be_focused()  # the field is the same until it is changed
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    page.keyboard.type("metrics.val_loss<0.2")  # a whole condition, as on the command line
    page.keyboard.press("Enter")
    expect_jobs(page, 1, 2, 5, 8, 11)
    page.get_by_role("button", name="And…").click()
    expect(line(page, 2).get_by_label("Field")).to_be_focused()
    page.keyboard.type("!label.team")
    page.keyboard.press("Enter")
    expect_jobs(page, 2, 8)
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Filter2", exact=True)).to_be_focused()
    page.get_by_role("button", name="!label.team").click()
    line(page, 2).get_by_label("Operator").select_option("has a value")
    expect_jobs(page, 1, 5, 11)
    page.go_back()
    expect_jobs(page, 2, 8)
    page.reload()
    page.get_by_role("button", name="Remove this filter").last.click()
    expect_jobs(page, 1, 2, 5, 8, 11)


def test_a_phone_has_the_filters_and_the_order_in_a_menu_that_all_can_use(
    browser: Browser, site: Site, session: StorageState, troubles: Troubles
) -> None:
    of_phone = {"storage_state": session, "viewport": NARROW, "color_scheme": "dark", "bypass_csp": True}
    with opened(browser, site, troubles, **of_phone) as page:
        page.goto("/?where=name+~+run+[1-4]$")
        page.get_by_role("button", name="Filter").first.click()
        page.get_by_label("Order").select_option("metrics.val_loss")
        page.get_by_role("button", name="Falling").click()
        expect_jobs(page, 1, 2, 3, 4)
        page.get_by_label("Order").select_option("spec.batch_size")
        page.get_by_label("Then by (2)").select_option("name")
        page.get_by_role("button", name="Rising").last.click()
        expect_jobs(page, 3, 4, 1, 2)
        line(page, 1).get_by_role("button", name="or").click()
        assert issues(page) == []
        page.get_by_label("Group").select_option("spec.batch_size")
        expect(page.get_by_role("button", name="spec.batch_size 64", exact=True)).to_be_visible()
        page.keyboard.press("Escape")
        assert issues(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_jobs_are_grouped_by_fields_with_a_metric_and_compared(page: Page) -> None:
    page.goto("/?metric=val_loss&where=metrics.val_loss<1")
    page.get_by_label("Group").select_option("label.team")
    page.get_by_label("And by").select_option("spec.batch_size")
    opener = page.get_by_role("button", name="label.team a or b, spec.batch_size 64", exact=True)
    group = page.get_by_role("listitem").filter(has=opener)
    expect(group).to_contain_text("2 of 2 jobs ended")
    expect(group).to_contain_text("mean val_loss 0.4 0.1 to 0.7, n 2")
    opener.click()
    expect_jobs(page, 1, 7)
    page.reload()
    expect_jobs(page, 1, 7)
    group.get_by_role("button", name="Select").click()
    expect(page.get_by_role("group", name="Selected jobs")).to_contain_text("2 selected")
    link = group.get_by_role("link", name="Compare").get_attribute("href") or ""
    assert link.startswith("/compare?")
    assert link.count("where=") == 3


def test_selected_jobs_are_labelled_and_starred_together(page: Page, service: Service) -> None:
    service.update("e0000000003", {"notes": "# Diverged"})
    page.goto("/?where=name+~+run+[34]$")
    expect_jobs(page, 3, 4)
    page.get_by_role("checkbox", name="Select all shown jobs").check()
    compare = page.get_by_role("link", name="Compare").and_(page.locator("[href*=jobs]"))
    expect(compare).to_have_attribute("href", re.compile(r"/compare\?jobs=e0000000003,e0000000004$"))
    actions = page.get_by_role("group", name="Selected jobs")
    actions.get_by_role("button", name="Label…").click()
    page.get_by_label("Label, as key:value").fill("draft:yes")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_text("Label added: 2")).to_be_visible()
    actions.get_by_role("button", name="Star", exact=True).click()
    expect(page.get_by_text("Starred: 2")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Undone: 2")).to_be_visible()
    assert not list(service.jobs(starred=True))
    actions.get_by_role("button", name="Star", exact=True).click()
    expect(page.get_by_text("Starred: 2")).to_be_visible()
    page.goto("/?where=label.draft=yes&where=starred&where=notes")
    expect_jobs(page, 3)


def test_ended_jobs_are_archived_brought_back_moved_and_deleted(
    page: Page, service: Service, troubles: Troubles
) -> None:
    service.create_project({"name": "vision", "is_open": True})
    ids = [service.submit({"name": f"old {n}", "dataset": "digits"})["id"] for n in range(3)]
    for job_id in ids:
        service.cancel(job_id)
    troubles.deleted_ids += ids
    page.goto("/?q=old")
    old = page.locator("[data-job] a[title^='old ']")
    expect(old).to_have_count(3)
    page.get_by_role("checkbox", name="Select all shown jobs").check()
    bar = page.get_by_role("group", name="Selected jobs")
    bar.get_by_role("button", name="Archive").click()
    expect(page.get_by_text("Archived: 3")).to_be_visible()
    expect(old).to_have_count(0)
    page.get_by_role("button", name="Filter", exact=True).click()
    page.get_by_label("Archived jobs").select_option("only them")
    expect(page).to_have_url(re.compile("archived=true"))
    page.reload()
    expect(old).to_have_text(["old 2", "old 1", "old 0"])
    page.get_by_role("checkbox", name="Select old 0").check()
    bar.get_by_role("button", name="Bring back").click()
    expect(page.get_by_text("Brought back: 1")).to_be_visible()
    expect(old).to_have_text(["old 2", "old 1"])
    page.get_by_role("button", name="Menu of old 1").click()
    page.get_by_role("button", name="Move…").click()
    page.get_by_role("combobox", name="Project").select_option("vision")
    page.get_by_role("button", name="Move", exact=True).click()
    expect(page.get_by_text("Moved to vision: 1")).to_be_visible()
    assert service.job(ids[1])["project"] == "vision"
    page.get_by_role("checkbox", name="Select all shown jobs").check()
    bar.get_by_role("button", name="Delete…").click()
    question = page.get_by_role("dialog", name="Delete these 2 jobs?")
    expect(question).to_contain_text("The GPU-hours stay")
    question.get_by_role("button", name="Delete 2").click()
    expect(page.get_by_text("Deleted: 2")).to_be_visible()
    expect(old).to_have_count(0)
    page.goto(f"/jobs/{ids[0]}")
    page.get_by_role("button", name="Archive or delete").click()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete the job").click()
    expect(page).to_have_url(re.compile("/$"))
    assert list(service.jobs(search="old")) == []


def test_a_study_is_paused_cancelled_moved_and_deleted(page: Page, service: Service, troubles: Troubles) -> None:
    service.create_project({"name": "speech", "is_open": True})
    base = {"dataset": "digits", "learning_rate": 0.01}
    study = service.submit_study({"name": "batches", "base": base, "grid": {"batch_size": [32, 64]}})["id"]
    page.goto(f"/studies/{study}")
    page.get_by_role("button", name="Pause…").click()
    page.get_by_role("button", name="Pause the study").click()
    page.get_by_role("button", name="Resume…").click()
    page.get_by_role("button", name="Resume the study").click()
    expect(page.get_by_role("button", name="Pause…")).to_be_visible()
    menu = page.get_by_role("button", name="Move or delete")
    menu.click()
    expect(page.get_by_text("after its end")).to_be_visible()
    page.get_by_role("button", name="Cancel…").click()
    question = page.get_by_role("dialog", name="Cancel batches?")
    expect(question).to_contain_text("2 jobs that have not ended")
    question.get_by_role("button", name="Cancel the study").click()
    menu.click()
    page.get_by_role("button", name="Move…").click()
    page.get_by_role("combobox", name="Project").select_option("speech")
    page.get_by_role("button", name="Move", exact=True).click()
    expect(page.get_by_text(", speech")).to_be_visible()
    assert {job["project"] for job in service.jobs(study=study)} == {"speech"}
    page.get_by_role("button", name="Delete…").click()
    troubles.deleted_ids.append(study)
    page.get_by_role("button", name="Delete the study and 2 jobs").click()
    expect(page).to_have_url(re.compile("/studies$"))
    assert list(service.studies()) == list(service.jobs(study=study)) == []
