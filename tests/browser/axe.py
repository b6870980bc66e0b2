"""The rules of WCAG 2 that a page breaks badly, found by axe-core. It is one of the dashboard's own packages."""

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

_AXE = Path(__file__).parents[2] / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
_ALL = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
_OF_COLOURS = ["color-contrast", "link-in-text-block"]


def serious_issues(page: Page, *, colours_alone: bool = False) -> list[str]:
    """A line for each broken rule and place. The page's context must bypass the Content-Security-Policy."""
    if not page.evaluate("'axe' in window"):
        page.add_script_tag(path=_AXE)
    report: dict[str, Any] = page.evaluate("rules => axe.run({runOnly: rules})", _OF_COLOURS if colours_alone else _ALL)
    return [
        f"{issue['id']}: {node['target']}: {node['failureSummary']}"
        for issue in report["violations"]
        if issue["impact"] in ("serious", "critical")
        for node in issue["nodes"]
    ]
