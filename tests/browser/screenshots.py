"""Take pictures of every page: `make screenshots`, or `python -m tests.browser.screenshots`.

All pictures go to `screenshots/`: light and dark, 1440x900 and 390x844, each page in its full height. The pictures
that the documents show also go to `docs/screenshots/`, with the height of the window and few colours, so that they stay
small. The pages show the jobs of `tests.browser.scene`: a new stack is filled first, which takes four minutes.
"""

import argparse
import io
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, expect

from bench.chromium import chromium, signed_in
from hora.service import Service
from hora.stack.control import Stack
from tests.browser.scene import fill, team_at
from tests.browser.views import SIZES, VIEWS, View, ids_by_name, path_of

ROOT = Path(__file__).parents[2]
ALL, KEPT = ROOT / "screenshots", ROOT / "docs" / "screenshots"
LOADED_MS = 30_000
SETTLED_MS = 1500  # after the first content of a page: curves come with a later answer
COLOURS = 128


def take(browser: Browser, service: Service, names: list[str]) -> None:
    """Take the pictures of these views."""
    ids = ids_by_name(service)
    session = signed_in(browser, service)
    for scheme in ("light", "dark"):
        for size, (width, height) in SIZES.items():
            for name in names:
                view, variant = VIEWS[name], f"{scheme}-{size}"
                context = browser.new_context(
                    base_url=service.url, color_scheme=scheme, viewport={"width": width, "height": height},
                    storage_state=session if view.is_signed_in else None,
                )  # fmt: skip
                page = context.new_page()
                page.goto(path_of(view, ids))
                _picture(page, view, f"{name}-{variant}", is_kept=variant in view.document.split())
                context.close()


def _picture(page: Page, view: View, name: str, *, is_kept: bool) -> None:
    page.get_by_text(view.ready).filter(visible=True).first.wait_for()
    expect(page.get_by_text("Loading")).to_have_count(0, timeout=LOADED_MS)
    if view.cursor_on:
        _point_at(page, view.cursor_on)
    page.wait_for_timeout(SETTLED_MS)
    ALL.mkdir(exist_ok=True)
    page.screenshot(path=ALL / f"{name}.png", full_page=True)
    if is_kept:
        KEPT.mkdir(exist_ok=True)
        if view.document_px is not None and (size := page.viewport_size) is not None:
            page.set_viewport_size({"width": size["width"], "height": view.document_px})
        with Image.open(io.BytesIO(page.screenshot())) as image:
            image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(KEPT / f"{name}.png", optimize=True)


def _point_at(page: Page, chart: str) -> None:
    """Point at a third of the chart's width, where curves still differ."""
    place = page.get_by_role("slider", name=f"Cursor of {chart}")
    box = place.bounding_box()
    assert box is not None
    place.hover(position={"x": box["width"] / 3, "y": box["height"] / 2})


@contextmanager
def _scene() -> Iterator[Service]:
    with tempfile.TemporaryDirectory(prefix="hora-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        os.environ["HORA_CODE"] = "on"
        with Stack(folder / "home", port=0, slots=2) as stack, team_at(stack.url, stack.token) as team:
            fill(team)
            yield team.admin


def main() -> int:
    """Take the pictures that the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m tests.browser.screenshots", description=__doc__)
    parser.add_argument("view", nargs="*", help=f"of: {', '.join(VIEWS)}")
    arguments = parser.parse_args()
    with _scene() as service, chromium() as browser:
        take(browser, service, arguments.view or list(VIEWS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
