"""What axe-core, which the dashboard's own packages bring, says about a page: rules of WCAG 2 that it breaks badly."""

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

_AXE = Path(__file__).parents[2] / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
_RUN = "() => axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']})"


def serious_issues(page: Page) -> list[str]:
    """A line for each rule and place. The page's context has to bypass its Content-Security-Policy."""
    page.add_script_tag(path=_AXE)
    found: dict[str, Any] = page.evaluate(_RUN)
    return [
        f"{issue['id']}: {node['target']}: {node['failureSummary']}"
        for issue in found["violations"]
        if issue["impact"] in ("serious", "critical")
        for node in issue["nodes"]
    ]
