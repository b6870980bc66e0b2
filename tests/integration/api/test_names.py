"""Names and labels in any script, with signs that mean something where they are shown: found, and harmless."""

import subprocess
import sys
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from jobs.insight.studies.plots import Line, Panel, Plot

Json = dict[str, Any]

NAMES = {
    "scripts": "Zoë 訓練 ελληνικά",
    "right to left": "اسم התרגיל 3",
    "emoji": "👩‍🔬 run ❤️ 🇩🇪",
    "quotes": 'it\'s "<ok>" & `x`',
    "formula": "=HYPERLINK(1)|$x^2$ _a_ \\frac{x",
    "path": "../../etc/passwd",
    "markup": "[red]x[/red]</script><!-- {{x}} %s",
    "longest": "訓" * 128,
    "query": "a&b=c;d?e#f%20+,g:h",
}


def test_a_job_with_any_name_is_found_by_name_label_and_search(
    api: TestClient, submit_job: Callable[..., str], subtests: pytest.Subtests
) -> None:
    ids = {kind: submit_job(name=name, labels={"k": name}) for kind, name in NAMES.items()}
    figures = api.get("/metrics").text
    for kind, name in NAMES.items():
        with subtests.test(kind=kind):
            for typed in (name, unicodedata.normalize("NFD", name), f"  {name}\u3000"):
                assert [job["id"] for job in listed_jobs(api, name=typed)] == [ids[kind]]
                if len(typed) < 250:
                    assert [job["id"] for job in listed_jobs(api, label=f"k:{typed}")] == [ids[kind]]
            for typed in (name, unicodedata.normalize("NFD", name), name.upper(), name[:5]):
                assert ids[kind] in [job["id"] for job in listed_jobs(api, search=typed[:200])]
            job = api.get(f"/v1/jobs/{ids[kind]}").json()
            assert job["name"] == job["spec"]["name"] == job["spec"]["labels"]["k"] == name
            assert name not in figures


def listed_jobs(api: TestClient, **query: Any) -> list[Json]:
    answer = api.get("/v1/jobs", params=query)
    assert answer.status_code == 200, answer.text
    items: list[Json] = answer.json()["items"]
    return items


def test_a_picture_shows_any_name_without_a_warning() -> None:
    lines = [Line(label=name, x=[0, 1], y=[1, 2], low=[None] * 2, high=[None] * 2) for name in NAMES.values()]
    panel = Panel(title="t", x_label="$a", y_label="_b", lines=lines, ticks=["訓練", "$\\frac{"])
    plot = Plot(title=NAMES["longest"], panels=[panel])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "api.processes.plot"],
        input=plot.model_dump_json().encode(), capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"\x89PNG")
