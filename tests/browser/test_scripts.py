"""The pages over scripts: one of two ranks is watched, looked into and cloned; a study varies a parameter."""

import re
import tarfile
from base64 import b64encode
from typing import Any

import pytest
import yaml
from playwright.sync_api import Page, expect

from hora.service import Service
from hora.stack.control import Stack
from tests.browser.conftest import STARTED_MS, Troubles
from tests.browser.scene import KEEPS
from tests.browser.test_training import grows
from tests.code import store_code
from tests.pictures import encoded, photo
from tests.stored_runs import sessions_on

STEPS = 10  # of an epoch
SCRIPT = f"""
import time
from hora import run

epochs = run.params["epochs"]
for epoch in range(1, epochs + 1):
    for step in range((epoch - 1) * {STEPS} + 1, epoch * {STEPS} + 1):
        time.sleep(run.params["pace_s"])
        run.report(step=step, mae=run.params["lr"] / step)
    run.report(epoch=epoch, val_mae=2 * run.params["lr"] / epoch, val_iou=1 - 1 / (epoch + 2))
    run.progress(epoch * 12, epochs * 12)
"""
ENDLESS, SHORT = {"lr": 0.5, "epochs": 100_000, "pace_s": 0.02}, {"lr": 0.5, "epochs": 2, "pace_s": 0.0}
LEAVES = f"""
from base64 import b64decode
from hora import run

FILES = {{
    "plots/loss.png": b64decode("{b64encode(encoded(photo(30, 40), "PNG")).decode()}"),
    "table.csv": b'epoch,note\\r\\n1,"low, then high"\\r\\n',
    "notes.md": b"# Seen\\n\\nIt **works**.\\n",
    "page.html": b"<script>window.isTaken = 1</script><b>bold</b>",
    "weights.bin": bytes(64),
    "large.log": 300_000 * b"x",
}}
for name, content in FILES.items():
    (run.artifacts / name).parent.mkdir(exist_ok=True)
    (run.artifacts / name).write_bytes(content)
print("first words")
print("last words")
"""


@pytest.fixture(scope="module")
def site(training_site: Stack) -> Stack:
    return training_site


def code_of(site: Stack, service: Service, script: str) -> str:
    """The digest of stored code: this script."""
    with sessions_on(site.database_url) as sessions:
        return store_code(sessions, {"train.py": script}, owner=service.me()["user"])


@pytest.fixture(scope="module")
def spec(site: Stack, service: Service) -> dict[str, Any]:
    """A spec that runs the script on two ranks."""
    return {
        "name": "regression", "code": code_of(site, service, SCRIPT), "command": ["python", "train.py"],
        "params": ENDLESS, "gpus": 2, "goal": {"metric": "val_mae"},
        "labels": {"git.commit": "0abc123", "git.dirty": "true"},
    }  # fmt: skip


def test_a_script_is_watched_and_cloned(page: Page, service: Service, spec: dict[str, Any]) -> None:
    job_id = service.submit(spec)["id"]
    page.goto(f"/jobs/{job_id}")
    script = page.get_by_role("region", name="Script", exact=True)
    expect(script).to_contain_text("python train.py")
    expect(script).to_contain_text("0abc123, with changes")
    grows(page.get_by_role("figure", name="mae"))
    metrics = page.get_by_role("region", name="Table of metrics").get_by_role("row")
    expect(metrics.nth(1)).to_contain_text(re.compile(r"val_mae\s*goal\s*[\d.e-]+"))
    expect(metrics).to_have_count(4)  # the headings, and a row for each metric
    expect(page.get_by_role("meter", name="Progress")).to_be_visible()
    expect(page.get_by_text(re.compile(r"\d of 1,200,000 · epoch \d")).first).to_be_visible()
    with page.expect_download() as download:
        script.get_by_role("link", name="Download").click()
    assert download.value.path().read_bytes()[:2] == b"\x1f\x8b"
    script.get_by_role("link", name="1 file").click()
    expect(page.get_by_role("region", name="Text of train.py")).to_contain_text("run.report(step=step, mae=")
    expect(page).to_have_url(re.compile("tab=code"))

    page.goto("/")
    row = page.get_by_role("row", name=re.compile(job_id))
    expect(row).to_contain_text("python train.py")
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("button", name="Show val_iou", exact=True).click()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="val_iou").click()  # the heading sorts
    expect(page).to_have_url(re.compile("sort=-metrics.val_iou"))
    expect(row.get_by_role("cell").last).to_have_text(re.compile(r"0\.\d"))

    page.goto(f"/new?clone={job_id}")
    page.get_by_role("heading", name="Script").click()
    expect(page.get_by_role("textbox", name="Command")).to_have_value('["python","train.py"]')
    parameters = page.get_by_role("textbox", name="Parameters")
    expect(parameters).to_have_value(re.compile('"lr":0.5'))
    expect(page.get_by_role("combobox", name="Model", exact=True)).to_have_value("")
    expect(page.get_by_text("a script builds its own model")).to_be_visible()
    expect(page.get_by_role("region", name="Plan")).to_contain_text("for the script to read")
    service.cancel(job_id)


def test_files_are_shown_and_the_log_is_copied(
    page: Page, site: Stack, service: Service, spec: dict[str, Any], troubles: Troubles
) -> None:
    troubles.allowed.append("409")  # the checkpoints: there is no store
    code = code_of(site, service, LEAVES)
    job_id = service.submit({"name": "leaves files", "code": code, "command": spec["command"], "gpus": 1})["id"]
    service.wait(job_id, timeout_s=STARTED_MS / 1000)
    page.goto(f"/jobs/{job_id}?tab=artifacts")
    page.get_by_role("link", name="plots/loss.png").click()
    expect(page).to_have_url(re.compile("file=plots%2Floss.png"))
    picture = page.get_by_role("dialog").get_by_role("img", name="plots/loss.png")
    expect(picture).to_have_js_property("naturalWidth", 40)
    page.go_back()
    expect(page.get_by_role("dialog")).to_have_count(0)
    for name, shown in (
        ("table.csv", page.get_by_role("cell", name="low, then high", exact=True)),
        ("notes.md", page.get_by_role("heading", name="Seen")),
        ("page.html", page.get_by_text("<b>bold</b>")),
    ):
        page.get_by_role("link", name=name).click()
        expect(page.get_by_role("dialog", name=name).and_(page.locator(":has(:focus)"))).to_be_visible()
        expect(shown).to_be_visible()
        page.keyboard.press("Escape")
        expect(page).to_have_url(re.compile("tab=artifacts$"))
    assert page.evaluate("window.isTaken") is None
    for name in ("weights.bin", "large.log"):
        with page.expect_download() as download:
            page.get_by_role("link", name=name).click()
        assert download.value.suggested_filename == name
    for name in ("table.csv", "weights.bin"):
        page.get_by_role("checkbox", name=f"Select {name}").check()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download 2 selected").click()
    with tarfile.open(download.value.path()) as archive:
        assert archive.getnames() == [f"{job_id}/table.csv", f"{job_id}/weights.bin"]

    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"/jobs/{job_id}?tab=logs&log_rank=0&log_find=words&log_only=1")
    expect(page.get_by_text("last words")).to_be_visible()
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "first words\nlast words\n"
    page.get_by_role("button", name="Between").click()
    page.get_by_label("Until").fill("2020-01-01T00:00:00")
    expect(page.get_by_text("No line matches.")).to_be_visible()
    expect(page).to_have_url(re.compile("log_until=20(19|20)-"))  # of UTC
    page.get_by_label("Until").fill("2099-01-01T00:00:00")
    expect(page.get_by_text("last words")).to_be_visible()


def test_a_study_of_a_parameter_is_compared_by_its_goal(page: Page, service: Service, spec: dict[str, Any]) -> None:
    base = spec | {"params": SHORT, "gpus": 1}
    study = service.submit_study({"name": "rates", "base": base, "grid": {"params.lr": [0.5, 0.25]}})["id"]
    service.wait_study(study, timeout_s=STARTED_MS / 1000)
    page.goto(f"/studies/{study}")
    expect(page.get_by_role("figure", name="val_mae by params.lr")).to_be_visible()
    cells = page.get_by_role("region", name="Table of cells").get_by_role("row")
    expect(cells.nth(1).get_by_role("cell", name="0.5", exact=True)).to_have_count(2)  # the rate, and val_mae
    expect(cells.nth(2)).to_contain_text("best val_mae")
    page.get_by_role("combobox", name="Figure").select_option("val_iou")
    expect(page.get_by_role("figure", name="val_iou by params.lr")).to_be_visible()
    written = page.get_by_role("region", name="Configuration as YAML").inner_text()
    assert yaml.safe_load(written) == {"name": "rates", "base": base, "grid": {"params.lr": [0.5, 0.25]}, "repeats": 1}

    page.goto(f"/compare?study={study}")
    expect(page.get_by_role("figure", name="val_mae")).to_be_visible()
    page.get_by_role("button", name="val_iou").first.click()  # of the curves
    expect(page.get_by_role("figure", name="val_iou").get_by_role("listitem")).to_have_count(2)
    runs = page.get_by_role("region", name="Table of runs")
    expect(runs.get_by_role("row", name=re.compile(r"^params\.lr 0\.5 0\.25$"))).to_be_visible()


WIDE = """
run.image("val/wide", random.random((40, 3000)), step=300)
"""

# Whether an element needs no scrolling where it is.
_FITS = """element => {
    let around = element;
    while (getComputedStyle(around).overflowY !== "auto") around = around.parentElement;
    return around.scrollHeight <= around.clientHeight;
}"""


def test_what_a_script_kept_by_step_is_shown(page: Page, site: Stack, service: Service, spec: dict[str, Any]) -> None:
    code = code_of(site, service, KEEPS + WIDE)
    job_id = service.submit({"name": "keeps", "code": code, "command": spec["command"], "gpus": 1})["id"]
    service.wait(job_id, timeout_s=STARTED_MS / 1000)
    page.goto(f"/jobs/{job_id}")
    page.get_by_role("link", name="Media").click()
    samples = page.get_by_role("region", name="val/samples", exact=True)
    expect(samples.get_by_text("made up at step 300")).to_be_visible()
    expect(samples.get_by_role("img")).to_have_js_property("naturalWidth", 72)
    samples.get_by_role("button", name="Previous step").click()
    expect(samples.get_by_text("made up at step 200")).to_be_visible()
    samples.get_by_role("slider", name="Step of val/samples").press("ArrowLeft")
    expect(samples.get_by_text("made up at step 100")).to_be_visible()
    expect(samples.get_by_role("button", name="Previous step")).to_be_disabled()
    samples.get_by_role("button", name="Next step").press("Enter")
    samples.get_by_role("button", name="Previous step").press("Enter")
    expect(samples.get_by_text("made up at step 100")).to_be_visible()
    expect(samples.get_by_role("button", name="Previous step")).to_be_focused()
    with page.expect_download() as download:
        samples.get_by_role("link", name="step 100").click()
    assert download.value.suggested_filename == "0000000100.png"
    wide = page.get_by_role("region", name="val/wide", exact=True)
    wide.get_by_role("button", name="Enlarge").click()
    large = page.get_by_role("dialog", name="val/wide")
    expect(large.get_by_role("img")).to_have_js_property("width", 3000)  # its own size: it scrolls
    assert page.evaluate("document.documentElement.scrollWidth") == page.evaluate("innerWidth")
    page.keyboard.press("Escape")
    expect(wide.get_by_role("button", name="Enlarge")).to_be_focused()
    samples.get_by_role("button", name="Enlarge").click()
    large = page.get_by_role("dialog", name="val/samples")
    large.get_by_role("button", name="Next step").click()
    expect(large.get_by_text("made up at step 200")).to_be_visible()
    large.get_by_role("button", name="Close").click()
    confusion = page.get_by_role("region", name="val/confusion", exact=True)
    expect(confusion.get_by_role("rowheader", name="fox")).to_be_visible()
    roc = page.get_by_role("region", name="val/roc", exact=True)
    expect(roc.get_by_role("slider", name="Cursor of true positive rate")).to_be_visible()
    expect(roc).to_contain_text("fox, AUC 0.")
    assert roc.get_by_role("slider", name="Cursor of true positive rate").evaluate(_FITS)  # the axis is in view
    histogram = page.get_by_role("region", name="weights/dense", exact=True)
    histogram.scroll_into_view_if_needed()
    expect(histogram.get_by_role("slider", name="Cursor of count")).to_be_visible()
    page.get_by_role("region", name="val/worst", exact=True).scroll_into_view_if_needed()
    expect(page.get_by_role("cell", name="9.5")).to_be_visible()
    assert page.evaluate("document.querySelector('audio').error") is None
