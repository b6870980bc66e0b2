"""How far a page's content moves by itself: the cumulative layout shift (https://web.dev/articles/cls)."""

from playwright.sync_api import Page

MOST_SHIFT = 0.05  # half of what is called good

_WATCH = """
    window.shifts = [];
    new PerformanceObserver(list => {
        for (const {value, startTime, hadRecentInput, sources} of list.getEntries())
            if (!hadRecentInput) window.shifts.push({value, at: startTime, moved: sources.map(
                ({node, previousRect: from, currentRect: to}) => `${node?.nodeName} ${(node?.textContent ?? '')
                    .slice(0, 40)} (${from.x}, ${from.y} ${from.height}) to (${to.x}, ${to.y} ${to.height})`)});
    }).observe({type: 'layout-shift', buffered: true});
"""
# The largest sum of shifts in a window of at most 5 s, in which no two are a second apart.
_WORST = """() => {
    let [sum, worst, first, last] = [0, 0, -Infinity, -Infinity];
    for (const {value, at} of window.shifts) {
        if (at - last > 1000 || at - first > 5000) [sum, first] = [0, at];
        [sum, last] = [sum + value, at];
        worst = Math.max(worst, sum);
    }
    return [worst, JSON.stringify(window.shifts.toSorted((a, b) => b.value - a.value).slice(0, 3))];
}"""


def watch_shifts(page: Page) -> None:
    """Observe the pages that are opened from now on."""
    page.add_init_script(_WATCH)


def assert_still(page: Page, what: str, *, most: float = MOST_SHIFT) -> None:
    """Fail if the content of the page has moved too far since it was opened."""
    worst, moved = page.evaluate(_WORST)
    assert worst < most, f"{what}: {worst:.3f}: {moved}"
