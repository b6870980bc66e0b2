"""What axe-core finds wrong on a page: the rules of WCAG 2 and good practice. It is a package of the dashboard."""

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

_AXE = Path(__file__).parents[2] / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"


def issues(page: Page) -> list[str]:
    """A line for each broken rule and place. The page's context must bypass the Content-Security-Policy."""
    page.add_script_tag(path=_AXE)
    report: dict[str, Any] = page.evaluate("axe.run()")
    return [
        f"{issue['id']}: {node['target']}: {node['failureSummary']}"
        for issue in report["violations"]
        for node in issue["nodes"]
    ]
